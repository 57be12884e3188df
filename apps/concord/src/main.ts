#!/usr/bin/env node
import { nodeClock, nodeRandom, tuneV8 } from "@concord/adapter-node-runtime";
import { buildOf, type Build } from "@concord/config";
import { readText, runServer, settingsOf } from "@concord/server";
import { endWithSchemaCommand, schemaCommandOf } from "@concord/storage-proxy";
import { runVerb, verbsText } from "./cli/commands.ts";
import { fsckCommand } from "./fsck/fsck.ts";
import { repairCommand } from "./fsck/repair.ts";
import { concordSchema, openProgram } from "./index.ts";
import { partConfigs } from "./part-configs.ts";
import { startCommandOf } from "./start-command.ts";

tuneV8();

const [first, ...rest] = process.argv.slice(2);
if (first === "fsck") process.exit(await fsckCommand(rest, console.log));
if (first === "repair") process.exit(await repairCommand(rest, console.log));
const build = (): Build => buildOf(import.meta.dirname, process.version, readText);
const ended = await runVerb(process.argv.slice(2), build, nodeClock);
if (ended !== undefined) process.exit(ended);
if (first === "--help") console.log(`${verbsText(build)}\n`);

const startCommand = startCommandOf(process, nodeRandom);
const { command, process: configured } = schemaCommandOf(startCommand?.process ?? process);
const settings = settingsOf("concord", concordSchema, import.meta.dirname, configured);
const { config, log } = settings;
if (command !== undefined) await endWithSchemaCommand(command, { config: partConfigs(config).storage, clock: nodeClock, log, process });
const { program, open } = openProgram(settings, process.env);
await runServer(program, open, process, startCommand?.announce);
