// The four services as processes of their own; what comes out of the events of a gateway.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { CreateBucketCommand, PutBucketNotificationConfigurationCommand, type S3Client } from "@aws-sdk/client-s3";

const PROGRAMS = {
  "dedup-worker": "@concord/dedup-worker/main",
  "object-gateway": "@concord/object-gateway/main",
  "storage-proxy": "@concord/storage-proxy/main",
  "txn-coordinator": "@concord/txn-coordinator/main",
} as const;
export const KEY = { accessKeyId: "CONCORD", secretAccessKey: "only-for-tests", tenant: "main" };

export interface EventProgram {
  readonly child: ChildProcess;
  readonly address: string;
  readonly httpAddress: string;
  readonly admin: string;
}

/** A program ended before it served: a failpoint can be passed by then. */
export class EndedEarly extends Error {
  readonly signal: NodeJS.Signals | null;

  constructor(signal: NodeJS.Signals | null, message: string) {
    super(message);
    this.signal = signal;
  }
}

/** `end` kills those that run. */
export class EventPrograms {
  readonly #children: ChildProcess[] = [];

  /** Resolves once it serves, at free addresses where the configuration names none. */
  async start(name: keyof typeof PROGRAMS, config: Readonly<Record<string, string>>): Promise<EventProgram> {
    const child = this.#spawn(name, config);
    const lines: string[] = [];
    child.stderr!.on("data", (bytes: Buffer) => lines.push(bytes.toString()));
    let admin = "";
    for await (const line of createInterface({ input: child.stdout! })) {
      lines.push(line);
      const entry = JSON.parse(line) as { message: string; address: string; httpAddress?: string };
      if (entry.message === "admin") admin = entry.address;
      if (entry.message !== "serving") continue;
      child.stdout!.resume();
      return { child, address: entry.address, httpAddress: entry.httpAddress ?? "", admin };
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    throw new EndedEarly(child.signalCode, `${name} ended before it served:\n${lines.join("\n")}`);
  }

  end(): void {
    for (const child of this.#children) child.kill("SIGKILL");
  }

  #spawn(name: keyof typeof PROGRAMS, config: Readonly<Record<string, string>>): ChildProcess {
    const main = fileURLToPath(import.meta.resolve(PROGRAMS[name]));
    const any = { CONCORD_LISTEN_ADDRESS: "127.0.0.1:0", CONCORD_ADMIN_ADDRESS: "127.0.0.1:0" };
    const child = spawn(process.execPath, [main], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...any, ...config } });
    this.#children.push(child);
    return child;
  }
}

/** "ObjectCreated:Put k" of each record, sorted; nothing of test events. */
export function eventsOf(values: readonly string[]): readonly string[] {
  const parsed = values.map(
    (value) => JSON.parse(value) as { Records?: readonly { eventName: string; s3: { object: { key: string } } }[] },
  );
  return parsed.flatMap(({ Records = [] }) => Records.map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`)).sort();
}

export async function metric(admin: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${admin}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

/** A new bucket that announces what is put and removed. */
export async function putRules(s3: S3Client, Bucket: string, target: string): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket }));
  const QueueArn = `arn:aws:sqs:us-east-1:main:${target}`;
  const NotificationConfiguration = {
    QueueConfigurations: [{ QueueArn, Events: ["s3:ObjectCreated:*" as const, "s3:ObjectRemoved:*" as const] }],
  };
  await s3.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
}
