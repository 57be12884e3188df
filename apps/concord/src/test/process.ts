// The real program as a process: started, watched through its log, killed.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ACCESS_KEY } from "./memory-node.ts";

const MAIN = join(import.meta.dirname, "../main.ts");

export interface Ready {
  readonly child: ChildProcess;
  readonly address: string;
  readonly httpAddress: string;
  readonly adminAddress: string;
}

/** Processes of one test file; `end` kills what is left. */
export class Processes {
  readonly #children: ChildProcess[] = [];

  spawn(args: readonly string[], environment: Readonly<Record<string, string>> = {}): ChildProcess {
    const keys = ["--access-keys", JSON.stringify([ACCESS_KEY])];
    const env = { ...process.env, ...environment };
    const child = spawn(process.execPath, [MAIN, ...keys, ...args], { stdio: ["ignore", "pipe", "pipe"], env });
    this.#children.push(child);
    return child;
  }

  /** Resolves with the process once it logs `message`. */
  async start(args: readonly string[], message = "ready"): Promise<Ready> {
    const child = this.spawn(args);
    const lines: string[] = [];
    let adminAddress = "";
    child.stderr!.on("data", (bytes: Buffer) => lines.push(bytes.toString()));
    for await (const line of createInterface({ input: child.stdout! })) {
      lines.push(line);
      const entry = JSON.parse(line) as { message: string; address: string; httpAddress: string };
      if (entry.message === "admin") adminAddress = entry.address;
      if (entry.message !== message) continue;
      child.stdout!.resume();
      return { child, address: entry.address, httpAddress: entry.httpAddress, adminAddress };
    }
    throw new Error(`the process ended before it logged ${message}:\n${lines.join("\n")}`);
  }

  /** Runs it to its end; both outputs. */
  async run(args: readonly string[]): Promise<{ code: number; output: string }> {
    const child = this.spawn(args);
    let output = "";
    for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
    const [code] = (await once(child, "close")) as [number];
    return { code, output };
  }

  end(): void {
    for (const child of this.#children) child.kill("SIGKILL");
  }
}

export async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  child.kill(signal);
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}
