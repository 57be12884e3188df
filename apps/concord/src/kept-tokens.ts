// Tokens and S3 access keys of a folder that one user starts Concord in: made once, kept beside the data.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { toHex, type Random } from "@concord/runtime";

const PRIVATE_MODE = 0o600;
/** Access keys in the form that S3 clients know. */
export const CREDENTIALS_FILE = "s3-credentials";

export interface AccessKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly tenant: string;
}

export interface Tokens {
  readonly coordinator: string;
  readonly peer: string;
  readonly operator: string;
  /** Keys of the tenants main and alt at the S3 endpoint. */
  readonly accessKeys: readonly AccessKey[];
}

/** Made once; a folder of an earlier version gets those that it lacks. */
export function keptTokens(path: string, random: Random): Tokens {
  const file = join(path, "tokens.json");
  const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Partial<Tokens>) : {};
  const tokens: Tokens = {
    coordinator: kept.coordinator ?? textOf(random.bytes(24)),
    peer: kept.peer ?? textOf(random.bytes(24)),
    operator: kept.operator ?? textOf(random.bytes(24)),
    accessKeys: kept.accessKeys ?? ["main", "alt"].map((tenant) => newAccessKey(tenant, random)),
  };
  writeFileSync(file, JSON.stringify(tokens), { mode: PRIVATE_MODE });
  writeFileSync(join(path, CREDENTIALS_FILE), credentialsText(tokens.accessKeys), { mode: PRIVATE_MODE });
  return tokens;
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");

function newAccessKey(tenant: string, random: Random): AccessKey {
  const accessKeyId = `CONCORD${toHex(random.bytes(8)).toUpperCase()}`;
  return { accessKeyId, secretAccessKey: textOf(random.bytes(30)), tenant };
}

/** The file of credentials that S3 clients and SDKs read: tenant main is the default profile. */
function credentialsText(keys: readonly AccessKey[]): string {
  return keys
    .map(({ accessKeyId, secretAccessKey, tenant }) => {
      const profile = tenant === "main" ? "default" : tenant;
      return `[${profile}]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`;
    })
    .join("\n");
}
