/**
 * Named points at which a test kills or pauses the process, from CONCORD_KILL_POINT = name[:n][:pause] (the n-th time the point is
 * passed, 1 when not given). In production the variable is not set and a point costs one comparison.
 */
export interface FailpointPlan {
  readonly name: string;
  readonly hit: number;
  readonly signal: "SIGKILL" | "SIGSTOP";
}

export const FAILPOINT_VARIABLE = "CONCORD_KILL_POINT";

const PAUSE = "pause";

/** Undefined when nothing is planned; throws on a value that is no plan. Names may have colons ("batch:after-log"). */
export function parseFailpoint(value: string | undefined): FailpointPlan | undefined {
  if (value === undefined || value === "") return undefined;
  const parts = value.split(":");
  const signal = parts.at(-1) === PAUSE ? "SIGSTOP" : "SIGKILL";
  if (signal === "SIGSTOP") parts.pop();
  const last = parts.at(-1) ?? "";
  const hit = /^[1-9]\d*$/.test(last) ? Number(last) : 1;
  if (/^\d+$/.test(last)) parts.pop();
  const name = parts.join(":");
  if (name === "" || (/^\d+$/.test(last) && Number(last) === 0)) {
    throw new Error(`${FAILPOINT_VARIABLE}=${value} is not name[:n][:pause] with n >= 1`);
  }
  return { name, hit, signal };
}

/** `send` delivers the signal to this process; a test passes its own. */
export function failpoint(plan: FailpointPlan | undefined, send: (signal: FailpointPlan["signal"]) => void): (name: string) => void {
  if (plan === undefined) return () => undefined;
  let hits = 0;
  return (name) => {
    if (name !== plan.name) return;
    hits += 1;
    if (hits === plan.hit) send(plan.signal);
  };
}

/** The failpoint of this process's environment. */
export function nodeFailpoint(env: NodeJS.ProcessEnv): (name: string) => void {
  return failpoint(parseFailpoint(env[FAILPOINT_VARIABLE]), (signal) => process.kill(process.pid, signal));
}
