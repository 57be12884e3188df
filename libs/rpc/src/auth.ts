import { createHash, timingSafeEqual } from "node:crypto";
import { assert, ConcordError, type Metadata } from "@concord/runtime";

/** Who calls. Each method names the roles that may call it; a role implies no other one. */
export type Role = "client" | "coordinator" | "peer" | "operator";

export interface Authenticator {
  /** The caller's role from its metadata; throws UNAUTHENTICATED when the credentials are none we know. */
  authenticate(metadata: Metadata): Role;
}

export interface RoleToken {
  readonly role: Role;
  readonly token: string;
}

const SCHEME = "Bearer ";

/**
 * Bearer tokens by role. When no token is configured for the role client, a caller without credentials is a client; a caller with
 * credentials we do not know is refused in any case.
 */
export function tokenAuthenticator(tokens: readonly RoleToken[]): Authenticator {
  for (const { role, token } of tokens) assert(token.length > 0, `the token of role ${role} is empty`);
  const known = tokens.map(({ role, token }) => ({ role, hash: sha256(token) }));
  const anonymous: Role | undefined = tokens.some(({ role }) => role === "client") ? undefined : "client";
  return {
    authenticate(metadata) {
      const header = metadata["authorization"];
      if (header === undefined) {
        if (anonymous === undefined) throw new ConcordError("UNAUTHENTICATED", "send the metadata authorization: Bearer <token>");
        return anonymous;
      }
      const role = header.startsWith(SCHEME) ? roleOf(known, header.slice(SCHEME.length)) : undefined;
      if (role === undefined) throw new ConcordError("UNAUTHENTICATED", "the bearer token is unknown");
      return role;
    },
  };
}

/** The metadata that presents a token. */
export function bearer(token: string | undefined): Metadata {
  return token === undefined ? {} : { authorization: SCHEME + token };
}

/** Compares with every token, each in constant time: the time tells nothing about which one was close. */
function roleOf(known: readonly { readonly role: Role; readonly hash: Uint8Array }[], token: string): Role | undefined {
  const hash = sha256(token);
  let found: Role | undefined;
  for (const one of known) if (timingSafeEqual(one.hash, hash)) found ??= one.role;
  return found;
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
