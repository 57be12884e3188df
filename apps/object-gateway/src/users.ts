// Access keys and tenant limits: those of the configuration, and those of `usersFile`, which is read again and again.
import { WatchedText } from "@concord/config";
import { assert, type Clock, type Log, type Tasks } from "@concord/runtime";
import type { Credential } from "@concord/s3";
import { usersSchema, type ObjectGatewayConfig, type TenantLimits, type UsersConfig } from "./config.ts";

export interface UsersOptions {
  readonly config: Pick<ObjectGatewayConfig, "accessKeys" | "tenantLimits" | "usersFile">;
  /** Needed for `usersFile`. */
  readonly readFile: ((path: string) => string) | undefined;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
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
  #file: WatchedText | undefined;

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
    const { config, readFile, log } = this.#options;
    const { usersFile } = config;
    if (usersFile === undefined) return;
    assert(readFile !== undefined, "usersFile is set, so readFile was passed");
    assert(this.#file === undefined, "users are opened once");
    const text = readFile(usersFile);
    this.#take(text);
    this.#file = new WatchedText({
      ...this.#options,
      name: "objects: users",
      text,
      read: () => readFile(usersFile),
      take: (replaced) => {
        this.#take(replaced);
        log.info("users replaced", { accessKeys: this.#known.keys.size, tenants: this.#known.tenants.size });
      },
      refused: (reason) => log.warn("users cannot be replaced; those before stay", { reason }),
    });
  }

  close(): void {
    this.#file?.close();
  }

  /** Throws when the text cannot be used, and nothing changes: a file that is half written locks no one out. */
  #take(text: string): void {
    this.#known = knownOf(this.#options.config, parseUsers(text));
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
