import { createHash, timingSafeEqual } from "node:crypto";
import { assert, ConcordError, type Metadata } from "@concord/runtime";

/** Who calls. Each method names the roles that may call it; a role implies no other one. */
export type Role = "client" | "coordinator" | "peer" | "operator";

export interface Caller {
  readonly role: Role;
  /** Of the token it presented; undefined: one of its role without a name, or none. */
  readonly name?: string;
}

export interface Authenticator {
  /** The caller from its metadata; throws UNAUTHENTICATED when the credentials are none we know. */
  authenticate(metadata: Metadata): Caller;
}

export interface RoleToken extends Caller {
  readonly token: string;
}

const SCHEME = "Bearer ";

/**
 * Bearer tokens by role. When no token is configured for the role client, a caller without credentials is a client; a caller with
 * credentials we do not know is refused in any case.
 */
export function tokenAuthenticator(tokens: readonly RoleToken[]): Authenticator {
  for (const { role, token } of tokens) assert(token.length > 0, `the token of role ${role} is empty`);
  const known = tokens.map(({ token, ...caller }) => ({ caller, hash: sha256(token) }));
  const anonymous: Caller | undefined = tokens.some(({ role }) => role === "client") ? undefined : { role: "client" };
  return {
    authenticate(metadata) {
      const header = metadata["authorization"];
      if (header === undefined) {
        if (anonymous === undefined) throw new ConcordError("UNAUTHENTICATED", "send the metadata authorization: Bearer <token>");
        return anonymous;
      }
      const caller = header.startsWith(SCHEME) ? callerOf(known, header.slice(SCHEME.length)) : undefined;
      if (caller === undefined) throw new ConcordError("UNAUTHENTICATED", "the bearer token is unknown");
      return caller;
    },
  };
}

/** The metadata that presents a token. */
export function bearer(token: string | undefined): Metadata {
  return token === undefined ? {} : { authorization: SCHEME + token };
}

/** Compares with every token, each in constant time: the time tells nothing about which one was close. */
function callerOf(known: readonly { readonly caller: Caller; readonly hash: Uint8Array }[], token: string): Caller | undefined {
  const hash = sha256(token);
  let found: Caller | undefined;
  for (const one of known) if (timingSafeEqual(one.hash, hash)) found ??= one.caller;
  return found;
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
