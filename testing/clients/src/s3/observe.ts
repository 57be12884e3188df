// Calls every operation by every caller and says what it saw.
import { callersOf, WORKS, type Caller } from "./callers.ts";
import { ACCESS_KEY, startGateway } from "./gateway-program.ts";
import type { OperationCase, World } from "./operation.ts";
import { OPERATIONS } from "./operations.ts";

export interface Observation {
  readonly operation: OperationCase;
  readonly caller: string;
  readonly answer: string;
  /** What is wrong with it; undefined: what the table expects. */
  readonly wrong: string | undefined;
}

const REFUSED = /^501 NotImplemented$|^405 MethodNotAllowed$/;

/** One gateway for all: each caller has buckets of its own. */
export async function observeOperations(config: object = {}): Promise<readonly Observation[]> {
  const gateway = await startGateway(config);
  const callers = callersOf(gateway.address);
  try {
    const all: Observation[] = [];
    for (const [at, caller] of callers.entries()) all.push(...(await observe(caller, `caller-${at}`)));
    return all;
  } finally {
    for (const caller of callers) caller.close();
    await gateway.stop();
  }
}

async function observe(caller: Caller, prefix: string): Promise<readonly Observation[]> {
  let world: World = {
    bucket: `${prefix}-bucket`,
    spare: `${prefix}-spare`,
    uploadId: "none",
    etag: "none",
    versionId: "none",
    tenant: ACCESS_KEY.tenant,
  };
  const seen: Observation[] = [];
  for (const operation of OPERATIONS) {
    const outcome = await caller.call(operation, world);
    if (outcome === undefined) continue;
    const { answer, text, learned } = outcome;
    world = { ...world, ...learned };
    seen.push({ operation, caller: caller.name, answer, wrong: wrongOf(operation, answer, text) });
  }
  return seen;
}

function wrongOf({ refusals, says }: OperationCase, answer: string, text: string): string | undefined {
  if (answer === WORKS) return says.test(text) ? undefined : `the answer does not say ${says}: ${text}`;
  return REFUSED.test(answer) || refusals.includes(answer) ? undefined : `answered ${answer}`;
}
