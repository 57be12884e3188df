#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { nodeClock, tuneV8 } from "@concord/adapter-node-runtime";
import { buildOf, configOfProcess } from "@concord/config";
import { runMain, type Running } from "@concord/rpc";
import { createLog } from "@concord/telemetry";
import { endWithSchemaCommand, schemaCommandOf } from "@concord/storage-proxy";
import { fsckCommand } from "./fsck/fsck.ts";
import { repairCommand } from "./fsck/repair.ts";
import { concordSchema, openProgram } from "./index.ts";
import { partConfigs } from "./part-configs.ts";

tuneV8();

const [first, ...rest] = process.argv.slice(2);
if (first === "fsck") process.exit(await fsckCommand(rest, console.log));
if (first === "repair") process.exit(await repairCommand(rest, console.log));
if (first === "--help") {
  console.log("usage: concord fsck DATA_FOLDER     (checks the data of a stopped node: concord fsck --help)");
  console.log("       concord repair DATA_FOLDER   (mends what of it can be mended: concord repair --help)\n");
}

const readFile = (path: string): string => readFileSync(path, "utf8");
const build = buildOf(import.meta.dirname, process.version, readFile);
const { command, process: configured } = schemaCommandOf(process);
const config = configOfProcess("concord", concordSchema, configured, readFile, build);
const log = createLog({ name: config.nodeName, level: config.logLevel });
if (command !== undefined) await endWithSchemaCommand(command, { config: partConfigs(config).storage, clock: nodeClock, log, process });
const program = openProgram(config, { log, build, env: process.env, readFile, processMetrics: true });

async function start(signal: AbortSignal, isLeaving: () => boolean): Promise<Running> {
  signal.addEventListener("abort", () => void program.stop());
  await program.start(isLeaving);
  return program;
}

await runMain({
  process,
  clock: nodeClock,
  log,
  build: { ...build },
  config,
  progress: program.stopProgress,
  failed: program.failed,
  start,
});
