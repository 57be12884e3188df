// How a bucket looks as a website: which documents stand for folders and errors, and what is elsewhere. It gives no request a right.
import { percentEncode } from "./encoding.ts";
import { S3Error } from "./errors.ts";
import { REDIRECT_BYTES_MAX } from "./limits.ts";

export interface Redirect {
  readonly host?: string | undefined;
  readonly protocol?: "http" | "https" | undefined;
  readonly status: number;
  /** Of the key: its prefix, if the condition has one, or all of it; the key as it was if absent. */
  readonly key?: { readonly kind: "prefix" | "whole"; readonly text: string } | undefined;
}

export interface RoutingRule {
  readonly prefix?: string | undefined;
  /** Only when the request would fail so; absent: before it is tried. */
  readonly errorStatus?: number | undefined;
  readonly redirect: Redirect;
}

export type Website =
  | { readonly kind: "redirect"; readonly redirect: Redirect }
  | { readonly kind: "documents"; readonly index: string; readonly error: string | undefined; readonly rules: readonly RoutingRule[] };

/** The first rule that fits the key, before the request is tried or after it failed with a status. */
export function routingRuleFor(rules: readonly RoutingRule[], key: string, failed: number | undefined): RoutingRule | undefined {
  return rules.find(({ prefix, errorStatus }) => errorStatus === failed && (prefix === undefined || key.startsWith(prefix)));
}

interface Asked {
  readonly key: string;
  /** Of the request: "www.example:8080". */
  readonly host: string;
  readonly scheme: "http" | "https";
}

/** The header Location: within this site a path alone. */
export function locationOf(redirect: Redirect, prefix: string | undefined, asked: Asked): string {
  const path = `/${encodeKey(keyOf(redirect, prefix, asked.key))}`;
  const { host, protocol } = redirect;
  if (host === undefined && protocol === undefined) return path;
  return `${protocol ?? asked.scheme}://${host ?? asked.host}${path}`;
}

function keyOf({ key: replaced }: Redirect, prefix: string | undefined, key: string): string {
  if (replaced === undefined) return key;
  return replaced.kind === "whole" ? replaced.text : `${replaced.text}${key.slice(prefix?.length ?? 0)}`;
}

/** A key that begins with "/" would be another host's name behind the path's own slash. */
export function encodeKey(key: string): string {
  const encoded = percentEncode(key, "kept");
  return encoded.startsWith("/") ? `%2F${encoded.slice(1)}` : encoded;
}

// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/;

/**
 * Throws InvalidRedirectLocation for what x-amz-website-redirect-location of an object may not say. A value that came by the query of a presigned request
 * could end the header in which it is sent later. One character is a byte.
 */
export function checkRedirectLocation(location: string): void {
  if (!/^(?:\/|https?:\/\/)/.test(location)) throw new S3Error("InvalidRedirectLocation");
  if (CONTROL.test(location)) throw new S3Error("InvalidRedirectLocation", "The website redirect location has control characters.");
  if (location.length > REDIRECT_BYTES_MAX)
    throw new S3Error("InvalidRedirectLocation", `The length of website redirect location cannot exceed ${REDIRECT_BYTES_MAX} characters.`);
}
