#!/usr/bin/env node
import { nodeClock, nodeRandom, tuneV8 } from "@concord/adapter-node-runtime";
import { runServer, settingsOf } from "@concord/server";
import { endWithSchemaCommand, schemaCommandOf } from "@concord/storage-proxy";
import { fsckCommand } from "./fsck/fsck.ts";
import { repairCommand } from "./fsck/repair.ts";
import { concordSchema, openProgram } from "./index.ts";
import { partConfigs } from "./part-configs.ts";
import { startCommandOf } from "./start-command.ts";
import { statusCommand } from "./status-command.ts";

tuneV8();

const [first, ...rest] = process.argv.slice(2);
if (first === "fsck") process.exit(await fsckCommand(rest, console.log));
if (first === "repair") process.exit(await repairCommand(rest, console.log));
if (first === "status") process.exit(await statusCommand(rest, { out: console.log, err: console.error }, nodeClock));
if (first === "--help") {
  console.log("usage: concord start             (all of it on this machine, without a configuration: concord start --help)");
  console.log("       concord status               (whether a running process serves, part by part: concord status --help)");
  console.log("       concord fsck DATA_FOLDER     (checks the data of a stopped node: concord fsck --help)");
  console.log("       concord repair DATA_FOLDER   (mends what of it can be mended: concord repair --help)\n");
}

const startCommand = startCommandOf(process, nodeRandom);
const { command, process: configured } = schemaCommandOf(startCommand?.process ?? process);
const settings = settingsOf("concord", concordSchema, import.meta.dirname, configured);
const { config, log } = settings;
if (command !== undefined) await endWithSchemaCommand(command, { config: partConfigs(config).storage, clock: nodeClock, log, process });
const { program, open } = openProgram(settings, process.env);
await runServer(program, open, process, startCommand?.announce);
