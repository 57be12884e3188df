import { nodeDisk, requireWritable, nodeMachine, tuneV8 } from "@concord/adapter-node-runtime";
import { readText, runServer, ServerProgram, settingsOf } from "@concord/server";
import { endWithListCommand, listCommandOf, listUsage, WORKER_LIST } from "@concord/member-lists";
import { DEAD_LETTERS_USAGE, deadLettersCommandOf, endWithDeadLetterCommand } from "./dead-letters/command.ts";
import { composeDedupWorker, DEDUP_WORKER_METRICS, dedupWorkerSchema } from "./index.ts";

tuneV8();

const deadLetters = deadLettersCommandOf(process);
const { command, process: configured } = listCommandOf(WORKER_LIST, deadLetters.process);
if (process.argv[2] === "--help") console.log(`${listUsage(WORKER_LIST)}${DEAD_LETTERS_USAGE}`);
const settings = settingsOf("dedup-worker", dedupWorkerSchema, import.meta.dirname, configured);
const { config } = settings;
const program = new ServerProgram({ ...settings, definitions: DEDUP_WORKER_METRICS, env: process.env, machine: nodeMachine });
const { environment, onFailed } = program;
if (command !== undefined) {
  const { workers, listenAddress, operatorToken, workerToken } = config;
  const addresses = workers.length > 0 ? workers.map(({ address }) => address) : [listenAddress];
  await endWithListCommand(command, { ...environment, list: WORKER_LIST, addresses, token: operatorToken ?? workerToken, process });
}
if (deadLetters.command !== undefined) await endWithDeadLetterCommand(deadLetters.command, { ...environment, config, process });
const { dataFolder, logFolder, kafkaTlsCaFile } = config;
const service = composeDedupWorker(config, {
  environment,
  disk: nodeDisk(dataFolder),
  ...(kafkaTlsCaFile === undefined ? {} : { kafkaCa: readText(kafkaTlsCaFile) }),
  ...(logFolder === undefined ? {} : { logDisk: nodeDisk(logFolder) }),
  onFailed,
});
const served = { name: "the worker", service, admin: { problems: () => service.problems } };
const open = async (): Promise<typeof served> => {
  for (const folder of [dataFolder, logFolder]) if (folder !== undefined) await requireWritable(folder);
  return served;
};
await runServer(program, open, process);
