// Who may come in, and how much each tenant may use: what the configuration says, and a file that is read again and again.
import { assert, type Clock, type Log, type Timer } from "@concord/runtime";
import type { Credential } from "@concord/s3";
import { usersSchema, type ObjectGatewayConfig, type TenantLimits, type UsersConfig } from "./config.ts";

/** A file that was replaced is in force within this time. */
export const USERS_READ_EVERY_MS = 30_000;

export interface UsersOptions {
  readonly config: Pick<ObjectGatewayConfig, "accessKeys" | "tenantLimits" | "usersFile">;
  /** Needed for `usersFile`. */
  readonly readFile: ((path: string) => string) | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

interface Known {
  readonly keys: ReadonlyMap<string, Credential>;
  readonly tenants: ReadonlySet<string>;
  readonly limits: ReadonlyMap<string, TenantLimits>;
}

export class Users {
  readonly #options: UsersOptions;
  #known: Known;
  /** Of the file, as it is in force. */
  #text = "";
  /** A text that cannot be used: said once. */
  #refused: string | undefined;
  #timer: Timer | undefined;

  /** Knows those of the configuration. */
  constructor(options: UsersOptions) {
    this.#options = options;
    this.#known = knownOf(options.config, NONE);
  }

  /** Undefined: no such access key, or no longer. */
  credential(accessKey: string): Credential | undefined {
    return this.#known.keys.get(accessKey);
  }

  /** Has a key. */
  isTenant(name: string): boolean {
    return this.#known.tenants.has(name);
  }

  limitsOf(tenant: string): TenantLimits | undefined {
    return this.#known.limits.get(tenant);
  }

  /** Reads the file: throws when it cannot be used. From then on its changes come into force by themselves. */
  open(): void {
    const path = this.#options.config.usersFile;
    if (path === undefined) return;
    assert(this.#timer === undefined, "users are opened once");
    this.#take(this.#read(path));
    this.#timer = this.#later(path);
  }

  close(): void {
    this.#timer?.cancel();
  }

  #later(path: string): Timer {
    return this.#options.clock.setTimer(USERS_READ_EVERY_MS, () => {
      this.#readAgain(path);
      this.#timer = this.#later(path);
    });
  }

  #read(path: string): string {
    const { readFile } = this.#options;
    assert(readFile !== undefined, "who names a file of users can read files");
    return readFile(path);
  }

  #take(text: string): void {
    this.#known = knownOf(this.#options.config, parseUsers(text));
    this.#text = text;
  }

  /** What cannot be used changes nothing: a file that is half written locks no one out. */
  #readAgain(path: string): void {
    const { log } = this.#options;
    let text = "";
    try {
      text = this.#read(path);
      if (text === this.#text) return;
      this.#take(text);
      log.info("users replaced", { accessKeys: this.#known.keys.size, tenants: this.#known.tenants.size });
    } catch (thrown) {
      if (this.#refused === text) return;
      this.#refused = text;
      log.warn("users cannot be replaced; those before stay", { reason: thrown instanceof Error ? thrown.message : String(thrown) });
    }
  }
}

const NONE: UsersConfig = { accessKeys: [], tenantLimits: [] };

/** No message has anything of the text: it is full of secrets. */
function parseUsers(text: string): UsersConfig {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("usersFile is not JSON");
  }
  const parsed = usersSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`usersFile: ${parsed.error.issues.map(({ path, message }) => `${path.map(String).join(".")}: ${message}`).join("; ")}`);
}

function knownOf(config: UsersConfig, file: UsersConfig): Known {
  const accessKeys = [...config.accessKeys, ...file.accessKeys];
  const keys = new Map(accessKeys.map(({ accessKeyId, secretAccessKey: secret, tenant }) => [accessKeyId, { secret, tenant }]));
  if (keys.size !== accessKeys.length) throw new Error("usersFile: it has an accessKeyId of the configuration");
  // The file's limits of a tenant replace the configuration's.
  const limits = new Map([...config.tenantLimits, ...file.tenantLimits].map((one) => [one.tenant, one]));
  return { keys, tenants: new Set(accessKeys.map(({ tenant }) => tenant)), limits };
}
