// The website of a bucket as XML.
import { S3Error } from "../errors.ts";
import { KEY_BYTES_MAX, WEBSITE_BYTES_MAX, WEBSITE_RULES_MAX } from "../limits.ts";
import { utf8Bytes } from "../encoding.ts";
import type { Redirect, RoutingRule, Website } from "../website.ts";
import { malformed, type XmlElement } from "./reader.ts";
import { leaves, root } from "./requests.ts";
import { group, leaf, xmlDocument, type Xml } from "./writer.ts";

/** A name, perhaps with a port: it becomes part of a header. */
const HOST = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:\d{1,5})?$/;
const REDIRECT_STATUSES: ReadonlySet<string> = new Set(["301", "302", "303", "307", "308"]);
const MOVED = 301;

const refused = (message: string): S3Error => new S3Error("InvalidRequest", message);
const wrong = (message: string): S3Error => new S3Error("InvalidArgument", message);

/** MalformedXML; InvalidArgument, InvalidRequest as S3. */
export function readWebsite(bytes: Uint8Array): Website {
  if (bytes.length > WEBSITE_BYTES_MAX) throw malformed(`it is longer than ${WEBSITE_BYTES_MAX} bytes`);
  const parts = new Map<string, XmlElement>();
  for (const element of root(bytes, "WebsiteConfiguration").children) {
    if (!KNOWN.has(element.name) || parts.has(element.name)) throw malformed(`${element.name} is not known here, or there twice`);
    parts.set(element.name, element);
  }
  const elsewhere = parts.get("RedirectAllRequestsTo");
  if (elsewhere !== undefined) {
    if (parts.size > 1) throw refused("RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.");
    const said = leaves(elsewhere, ["HostName", "Protocol"]);
    if (!said.has("HostName")) throw malformed("RedirectAllRequestsTo needs a HostName");
    return { kind: "redirect", redirect: { ...readPlace(said), status: MOVED } };
  }
  return readDocuments(parts);
}

const KNOWN: ReadonlySet<string> = new Set(["RedirectAllRequestsTo", "IndexDocument", "ErrorDocument", "RoutingRules"]);

function readDocuments(parts: ReadonlyMap<string, XmlElement>): Website {
  const only = (name: string, field: string): string | undefined => {
    const element = parts.get(name);
    if (element === undefined) return undefined;
    const text = leaves(element, [field]).get(field);
    if (text === undefined) throw malformed(`${name} needs a ${field}`);
    return text;
  };
  const index = only("IndexDocument", "Suffix");
  const error = only("ErrorDocument", "Key");
  if (index === undefined) throw wrong("A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty");
  if (index === "" || index.includes("/") || utf8Bytes(index) > KEY_BYTES_MAX) throw wrong("The IndexDocument Suffix is not well formed");
  if (error !== undefined && (error === "" || utf8Bytes(error) > KEY_BYTES_MAX)) throw wrong("The ErrorDocument Key is not well formed");
  const rules = parts.get("RoutingRules");
  if (rules !== undefined && rules.text.trim() !== "") throw malformed("it has text between elements");
  const all = rules?.children ?? [];
  if (all.length > WEBSITE_RULES_MAX)
    throw refused(`${all.length} routing rules provided, the number of routing rules is limited to ${WEBSITE_RULES_MAX}.`);
  return { kind: "documents", index, error, rules: all.map(readRule) };
}

function readRule(element: XmlElement): RoutingRule {
  if (element.name !== "RoutingRule" || element.text.trim() !== "") throw malformed(`${element.name} is not known here, or has text`);
  const [condition, redirect] = ["Condition", "Redirect"].map((name) => element.children.filter((child) => child.name === name));
  if (redirect!.length !== 1 || condition!.length > 1 || element.children.length !== 1 + condition!.length)
    throw malformed("a RoutingRule has one Redirect and at most one Condition");
  const asked =
    condition![0] === undefined ? new Map<string, string>() : leaves(condition![0], ["KeyPrefixEquals", "HttpErrorCodeReturnedEquals"]);
  if (condition![0] !== undefined && asked.size === 0)
    throw refused("Condition cannot be empty. To redirect all requests without a condition, the condition element shouldn't be present.");
  const errorCode = asked.get("HttpErrorCodeReturnedEquals");
  if (errorCode !== undefined && !/^[45]\d\d$/.test(errorCode))
    throw refused("The provided HTTP error code is not valid. Valid codes are 4XX or 5XX.");
  return {
    prefix: asked.get("KeyPrefixEquals"),
    errorStatus: errorCode === undefined ? undefined : Number(errorCode),
    redirect: readRedirect(redirect![0]!),
  };
}

function readRedirect(element: XmlElement): Redirect {
  const said = leaves(element, ["HostName", "Protocol", "HttpRedirectCode", "ReplaceKeyPrefixWith", "ReplaceKeyWith"]);
  if (said.size === 0) throw malformed("a Redirect needs at least one element");
  const status = said.get("HttpRedirectCode") ?? String(MOVED);
  if (!REDIRECT_STATUSES.has(status))
    throw refused("The provided HTTP redirect code is not valid. Valid codes are 301, 302, 303, 307 and 308.");
  const [prefix, whole] = [said.get("ReplaceKeyPrefixWith"), said.get("ReplaceKeyWith")];
  if (prefix !== undefined && whole !== undefined) throw refused("You can only define ReplaceKeyPrefix or ReplaceKey but not both.");
  const text = prefix ?? whole;
  const key = text === undefined ? undefined : ({ kind: whole === undefined ? "prefix" : "whole", text } as const);
  return { ...readPlace(said), status: Number(status), key };
}

function readPlace(said: ReadonlyMap<string, string>): Pick<Redirect, "host" | "protocol"> {
  const [host, protocol] = [said.get("HostName"), said.get("Protocol")];
  if (host !== undefined && !HOST.test(host)) throw refused("The HostName of a redirect is not the name of a host.");
  if (protocol !== undefined && protocol !== "http" && protocol !== "https")
    throw refused("Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically.");
  return { host, protocol };
}

export function websiteXml(website: Website): string {
  if (website.kind === "redirect") {
    const { host, protocol } = website.redirect;
    return xmlDocument("WebsiteConfiguration", group("RedirectAllRequestsTo", leaf("HostName", host), leaf("Protocol", protocol)));
  }
  const { index, error, rules } = website;
  return xmlDocument(
    "WebsiteConfiguration",
    group("IndexDocument", leaf("Suffix", index)),
    error === undefined ? "" : group("ErrorDocument", leaf("Key", error)),
    rules.length === 0 ? "" : group("RoutingRules", ...rules.map(ruleXml)),
  );
}

function ruleXml({ prefix, errorStatus, redirect: { host, protocol, status, key } }: RoutingRule): Xml {
  const isAlways = prefix === undefined && errorStatus === undefined;
  const condition = isAlways ? "" : group("Condition", leaf("HttpErrorCodeReturnedEquals", errorStatus), leaf("KeyPrefixEquals", prefix));
  const replaced = key === undefined ? "" : leaf(key.kind === "whole" ? "ReplaceKeyWith" : "ReplaceKeyPrefixWith", key.text);
  return group(
    "RoutingRule",
    condition,
    group("Redirect", leaf("HostName", host), leaf("HttpRedirectCode", status), leaf("Protocol", protocol), replaced),
  );
}
