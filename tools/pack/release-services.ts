// Concord as a stranger starts it: `npx @concord/concord start` in a folder where the package is installed, ended by Ctrl-C.
import { spawn } from "node:child_process";
import { once } from "node:events";

const FREE_PORTS = ["listen", "admin", "http"].flatMap((port) => [`--${port}-address`, "127.0.0.1:0"]);

export interface Services {
  /** Address of its gRPC port. */
  readonly address: string;
  /** Does the same as Ctrl-C in its terminal; rejects where it ends without a drain. */
  stop(): Promise<void>;
  kill(): void;
}

/** Rejects with what it printed where it ends before it is ready. */
export async function startServices(folder: string, env: NodeJS.ProcessEnv): Promise<Services> {
  const args = ["--no-install", "@concord/concord", "start", ...FREE_PORTS];
  // In a process group of its own, as a terminal gives one to what it runs.
  const child = spawn("npx", args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let output = "";
  const ready = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes: Buffer) => {
      output += bytes.toString();
      if (/^ready/m.test(output)) ready.resolve();
    });
  }
  // npx itself ends at once: its outputs are closed when the program behind it has ended too.
  const closed = once(child, "close").then(() => ready.reject(new Error(`it ends before it is ready:\n${output}`)));
  await ready.promise;
  return {
    address: /^gRPC +(\S+)/m.exec(output)![1]!,
    stop: async () => {
      process.kill(-child.pid!, "SIGINT");
      await closed;
      if (!/^stopped$/m.test(output)) throw new Error(`it ends without a drain:\n${output}`);
    },
    kill: () => endGroup(child.pid!),
  };
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
