// The files of a new project, by path in its folder.

const pascal = (name) => name.replaceAll(/(^|-)([a-z0-9])/g, (_match, _dash, letter) => letter.toUpperCase());
const camel = (name) => pascal(name).replace(/^./, (letter) => letter.toLowerCase());
const upper = (name) => name.replaceAll("-", "_").toUpperCase();
const json = (value) => `${JSON.stringify(value, undefined, 2)}\n`;
const TSCONFIG = '{ "extends": "../../tsconfig.base.json", "include": ["src"] }\n';

function manifest(name, version, layer, exports, dependencies) {
  return json({
    name: `@concord/${name}`,
    version,
    private: true,
    license: "Apache-2.0",
    type: "module",
    exports,
    nx: { tags: [`layer:${layer}`] },
    dependencies: Object.fromEntries(dependencies.map((dependency) => [`@concord/${dependency}`, "*"])),
  });
}

export function libFiles(name, layer, version) {
  return {
    "package.json": manifest(name, version, layer, { ".": "./src/index.ts" }, []),
    "tsconfig.json": TSCONFIG,
    "README.md": `# ${name}\n\nOne sentence: what it promises. Layer \`${layer}\`.\n\n| file | one sentence |\n|---|---|\n| ${name}.ts | Its first function. |\n`,
    "src/index.ts": `export { ${camel(name)} } from "./${name}.ts";\n`,
    [`src/${name}.ts`]: `/** Promises the name of this library. */\nexport function ${camel(name)}(): string {\n  return "${name}";\n}\n`,
    [`src/${name}.test.ts`]: `import assert from "node:assert/strict";
import { test } from "node:test";
import { ${camel(name)} } from "./index.ts";

test("${name}: called: its name", () => {
  assert.equal(${camel(name)}(), "${name}");
});
`,
  };
}

export function appFiles(name, version) {
  const dependencies = ["adapter-node-runtime", "config", "rpc", "runtime", "server"];
  return {
    "package.json": manifest(name, version, "app", { ".": "./src/index.ts", "./main": "./src/main.ts" }, dependencies),
    "tsconfig.json": TSCONFIG,
    "serve.json": json({ listenAddress: "127.0.0.1:0", adminAddress: "127.0.0.1:0" }),
    "README.md": appReadme(name),
    "src/index.ts": appIndex(name),
    "src/config.ts": appConfig(name),
    "src/metrics.ts": appMetrics(name),
    "src/composition.ts": appComposition(name),
    "src/service.ts": appService(name),
    "src/main.ts": appMain(name),
    "src/service.test.ts": appTest(name),
  };
}

function appReadme(name) {
  return `# ${name}

One sentence: what it promises. \`npx nx serve ${name}\` runs it from its source with the addresses of serve.json.

| file | one sentence |
|---|---|
| main.ts, config.ts, composition.ts, service.ts | Settings; the only place that knows adapters; start, serve, drain. |
| metrics.ts | Every metric. |
`;
}

function appIndex(name) {
  return `export { compose${pascal(name)} } from "./composition.ts";
export { ${camel(name)}Schema, type ${pascal(name)}Config } from "./config.ts";
export { ${upper(name)}_METRICS } from "./metrics.ts";
export type { ${pascal(name)}Service } from "./service.ts";
`;
}

function appConfig(name) {
  return `import { checkServer, serverShape, z } from "@concord/config";

/** Every key of ${name}. */
export const ${camel(name)}Schema = z
  .strictObject({
    ...serverShape,
    nodeName: z.string().min(1).max(64).default("${name}").describe("this node's name"),
  })
  .superRefine(checkServer);

export type ${pascal(name)}Config = z.output<typeof ${camel(name)}Schema>;
`;
}

function appMetrics(name) {
  return `import { RPC_METRICS } from "@concord/rpc";
import type { MetricDefinition } from "@concord/runtime";

/** Every metric of ${name}. */
export const ${upper(name)}_METRICS: readonly MetricDefinition[] = [...RPC_METRICS];
`;
}

function appComposition(name) {
  return `import { tokensOf } from "@concord/config";
import { startHost, tokenAuthenticator, type Service } from "@concord/rpc";
import type { Environment } from "@concord/runtime";
import type { ${pascal(name)}Config } from "./config.ts";
import { ${pascal(name)}Service } from "./service.ts";

/** The services of ${name}, one file per RPC in rpc/; health and reflection come with the host. */
const SERVICES: readonly Service[] = [];

/** The only place that knows every adapter of ${name}. */
export function compose${pascal(name)}(config: ${pascal(name)}Config, { transport, clock, log, metrics }: Environment): ${pascal(name)}Service {
  const { listenAddress: address, reflection, drainGraceMs } = config;
  const authenticator = tokenAuthenticator(tokensOf(config));
  return new ${pascal(name)}Service({
    log,
    drainGraceMs,
    host: () => startHost({ transport, address, services: SERVICES, clock, log, metrics, authenticator, reflection }),
  });
}
`;
}

function appService(name) {
  return `import type { ServiceHost } from "@concord/rpc";
import { assert, type Log } from "@concord/runtime";

/** What the composition constructs it from. */
export interface ${pascal(name)}Options {
  readonly log: Log;
  readonly drainGraceMs: number;
  host(): Promise<ServiceHost>;
}

type State =
  | { readonly kind: "new" }
  | { readonly kind: "starting"; readonly host: Promise<ServiceHost> }
  | { readonly kind: "serving"; readonly host: ServiceHost }
  | { readonly kind: "stopped" };

/** Binds, serves, drains. */
export class ${pascal(name)}Service {
  readonly #options: ${pascal(name)}Options;
  #state: State = { kind: "new" };

  constructor(options: ${pascal(name)}Options) {
    this.#options = options;
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready;
  }

  /** Resolves when it serves. */
  async start(): Promise<{ readonly address: string }> {
    assert(this.#state.kind === "new", "a service starts once");
    const starting = this.#options.host();
    this.#state = { kind: "starting", host: starting };
    const host = await starting;
    host.setServing();
    this.#state = { kind: "serving", host };
    this.#options.log.info("serving", { address: host.address });
    return { address: host.address };
  }

  /** New calls get DRAINING, calls in flight finish. Never rejects; a second call does nothing. */
  async stop(): Promise<void> {
    const state = this.#state;
    if (state.kind === "new" || state.kind === "stopped") return;
    const host = await Promise.resolve(state.host).catch(() => undefined);
    await host?.drain(this.#options.drainGraceMs);
    this.#state = { kind: "stopped" };
  }
}
`;
}

function appMain(name) {
  return `import { nodeMachine, tuneV8 } from "@concord/adapter-node-runtime";
import { runServer, ServerProgram, settingsOf } from "@concord/server";
import { compose${pascal(name)}, ${camel(name)}Schema, ${upper(name)}_METRICS } from "./index.ts";

tuneV8();

const settings = settingsOf("${name}", ${camel(name)}Schema, import.meta.dirname, process);
const program = new ServerProgram({ ...settings, definitions: ${upper(name)}_METRICS, env: process.env, machine: nodeMachine });
const service = compose${pascal(name)}(settings.config, program.environment);
await runServer(program, async () => ({ name: "the service", service }), process);
`;
}

function appTest(name) {
  return `import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock, nodeEnvironment } from "@concord/adapter-node-runtime";
import { grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import { compose${pascal(name)}, ${camel(name)}Schema } from "./index.ts";

test("${name}: started, stopped: ready only in between; a second stop does nothing", async () => {
  const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
  const environment = nodeEnvironment({ transport, log: silentLog, metrics: silentMetrics, env: {} });
  const service = compose${pascal(name)}(${camel(name)}Schema.parse({}), environment);
  assert.equal(service.ready, false);
  const { address } = await service.start();
  assert.match(address, /^127\\.0\\.0\\.1:\\d+$/);
  assert.equal(service.ready, true);
  await service.stop();
  await service.stop();
  assert.equal(service.ready, false);
});
`;
}
