// Locks of versions: in the headers of uploads, as documents, and what conditions of policies may ask of them.
import type { ConditionFacts } from "./access/conditions.ts";
import { formatIsoDate, isoTimeOf } from "./dates.ts";
import { S3Error } from "./errors.ts";
import type { Fields } from "./fields.ts";
import { LOCK_DEFAULT_DAYS_MAX, LOCK_DEFAULT_YEARS_MAX } from "./limits.ts";
import type { BucketLocking, DefaultRetention, ObjectLock, Retention } from "./types.ts";
import { malformed, type XmlElement } from "./xml/reader.ts";
import { leaf as textOf, leaves, root } from "./xml/requests.ts";
import { group, leaf, xmlDocument } from "./xml/writer.ts";

const DAY_MS = 86_400_000;
const MODE = "x-amz-object-lock-mode";
const UNTIL = "x-amz-object-lock-retain-until-date";
const HOLD = "x-amz-object-lock-legal-hold";

const BOTH = "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";

/** What an upload asks for; undefined: nothing. InvalidArgument for what no lock is; nothing of it is ever ignored. */
export function readLockHeaders(headers: Fields): ObjectLock | undefined {
  const [mode, until, hold] = [headers.one(MODE), headers.one(UNTIL), headers.one(HOLD)];
  if ((mode === undefined) !== (until === undefined)) throw invalid(BOTH);
  const retention = mode === undefined || until === undefined ? undefined : { mode: modeOf(mode), untilMs: timeOf(until) };
  const legalHold = hold === undefined ? undefined : holdOf(hold);
  if (retention === undefined && legalHold === undefined) return undefined;
  return { ...(retention === undefined ? {} : { retention }), ...(legalHold === undefined ? {} : { legalHold }) };
}

/** Of the answer to a read. */
export function lockHeaders({ retention, legalHold }: ObjectLock): readonly (readonly [string, string])[] {
  const kept =
    retention === undefined ? [] : ([[MODE, retention.mode] as const, [UNTIL, formatIsoDate(retention.untilMs)] as const] as const);
  return [...kept, ...(legalHold === undefined ? [] : [[HOLD, legalHold] as const])];
}

/** Whether the caller asks to go past governance mode: x-amz-bypass-governance-retention. InvalidArgument for neither true nor false. */
export function readBypass(headers: Fields): "governance" | undefined {
  const text = headers.one("x-amz-bypass-governance-retention")?.trim().toLowerCase();
  if (text === undefined || text === "false") return undefined;
  if (text !== "true") throw invalid("x-amz-bypass-governance-retention must be true or false");
  return "governance";
}

/** Of a new bucket: x-amz-bucket-object-lock-enabled. */
export function readLockEnabled(headers: Fields): boolean {
  const text = (headers.one("x-amz-bucket-object-lock-enabled") ?? "false").trim().toLowerCase();
  if (text !== "true" && text !== "false") throw invalid("x-amz-bucket-object-lock-enabled must be true or false");
  return text === "true";
}

/** What conditions may ask of a lock that a request sets. Days that are left have fractions: what is longer than a limit by an hour is longer. */
export function lockFacts({ retention, legalHold }: ObjectLock, nowMs: number): ConditionFacts {
  return {
    ...(retention === undefined
      ? {}
      : {
          "s3:object-lock-mode": retention.mode,
          "s3:object-lock-retain-until-date": String(retention.untilMs),
          "s3:object-lock-remaining-retention-days": String((retention.untilMs - nowMs) / DAY_MS),
        }),
    ...(legalHold === undefined ? {} : { "s3:object-lock-legal-hold": legalHold }),
  };
}

/** MalformedXML, InvalidArgument. */
export function readLockConfiguration(bytes: Uint8Array): BucketLocking {
  const { children } = root(bytes, "ObjectLockConfiguration");
  const [enabled, rule, ...more] = children.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  if (enabled?.name !== "ObjectLockEnabled" || textOf(enabled) !== "Enabled") throw malformed("ObjectLockEnabled must be Enabled");
  if (more.length > 0) throw malformed(`${more[0]!.name} is not known here, or there twice`);
  return rule === undefined ? {} : { defaultRetention: readRule(rule) };
}

function readRule({ name, children, text }: XmlElement): DefaultRetention {
  const [retention, ...more] = children;
  if (name !== "Rule" || retention?.name !== "DefaultRetention" || more.length > 0 || text.trim() !== "")
    throw malformed("a Rule has one DefaultRetention");
  const fields = leaves(retention, ["Mode", "Days", "Years"]);
  const [mode, days, years] = [fields.get("Mode"), fields.get("Days"), fields.get("Years")];
  if (mode === undefined || (days === undefined) === (years === undefined))
    throw malformed("a DefaultRetention has a Mode, and either Days or Years");
  const unit = days === undefined ? "years" : "days";
  const said = (days ?? years ?? "").trim();
  if (!/^-?\d{1,15}$/.test(said)) throw malformed(`a number of ${unit} is none`);
  const count = Number(said);
  if (count <= 0) throw invalid("Default retention period must be a positive integer value.");
  if (count > (unit === "days" ? LOCK_DEFAULT_DAYS_MAX : LOCK_DEFAULT_YEARS_MAX)) throw invalid("Default retention period is too long.");
  if (mode !== "GOVERNANCE" && mode !== "COMPLIANCE") throw malformed("a Mode is not known");
  return { mode, unit, count };
}

export function lockConfigurationXml({ defaultRetention: rule }: BucketLocking): string {
  const length = rule === undefined ? "" : leaf(rule.unit === "days" ? "Days" : "Years", rule.count);
  const kept = rule === undefined ? "" : group("Rule", group("DefaultRetention", leaf("Mode", rule.mode), length));
  return xmlDocument("ObjectLockConfiguration", leaf("ObjectLockEnabled", "Enabled"), kept);
}

/** Undefined: an empty one, which ends what is there. */
export function readRetention(bytes: Uint8Array): Retention | undefined {
  const fields = leaves(root(bytes, "Retention"), ["Mode", "RetainUntilDate"]);
  const [mode, until] = [fields.get("Mode"), fields.get("RetainUntilDate")];
  if (mode === undefined && until === undefined) return undefined;
  if (mode !== "GOVERNANCE" && mode !== "COMPLIANCE") throw malformed("a Mode is not known, or missing");
  const untilMs = isoMsOf(until ?? "");
  if (untilMs === undefined) throw malformed("a RetainUntilDate is no date, or missing");
  return { mode, untilMs };
}

export const retentionXml = ({ mode, untilMs }: Retention): string =>
  xmlDocument("Retention", leaf("Mode", mode), leaf("RetainUntilDate", formatIsoDate(untilMs)));

export function readLegalHold(bytes: Uint8Array): "ON" | "OFF" {
  const status = leaves(root(bytes, "LegalHold"), ["Status"]).get("Status");
  if (status !== "ON" && status !== "OFF") throw malformed("a Status must be ON or OFF");
  return status;
}

export const legalHoldXml = (status: "ON" | "OFF"): string => xmlDocument("LegalHold", leaf("Status", status));

function modeOf(text: string): Retention["mode"] {
  if (text !== "GOVERNANCE" && text !== "COMPLIANCE") throw invalid("Unknown wormMode directive.");
  return text;
}

function holdOf(text: string): "ON" | "OFF" {
  if (text !== "ON" && text !== "OFF") throw invalid("Legal Hold must be either of 'ON' or 'OFF'");
  return text;
}

function timeOf(text: string): number {
  const ms = isoMsOf(text);
  if (ms === undefined) throw invalid("The retain until date must be provided in ISO 8601 format");
  return ms;
}

/** To the millisecond, a fraction of one upwards: what is kept is never kept shorter than was asked. */
function isoMsOf(text: string): number | undefined {
  const secondsMs = isoTimeOf(text);
  const [, fraction = ""] = /\.(\d{1,9})Z$/.exec(text) ?? [];
  return secondsMs === undefined ? undefined : secondsMs + Math.ceil(Number(fraction.padEnd(9, "0")) / 1_000_000);
}

const invalid = (message: string): S3Error => new S3Error("InvalidArgument", message);
