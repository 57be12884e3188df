// The three ways S3 writes a time.

const BASIC = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$/;
const IMF =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d{2}) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "20130524T000000Z"; undefined when it is none, also for a day that does not exist. */
export function parseTimestamp(text: string): number | undefined {
  const parts = BASIC.exec(text)?.slice(1).map(Number);
  return parts === undefined ? undefined : exactTime(parts);
}

export function formatTimestamp(ms: number): string {
  return new Date(ms).toISOString().replace(/[-:]|\.\d{3}/g, "");
}

/** "Fri, 24 May 2013 00:00:00 GMT", the one form of HTTP that is still sent. Undefined for anything else. */
export function parseHttpDate(text: string): number | undefined {
  const match = IMF.exec(text);
  if (match === null) return undefined;
  const [, day, month, year, hour, minute, second] = match;
  return exactTime([Number(year), MONTHS.indexOf(month!) + 1, Number(day), Number(hour), Number(minute), Number(second)]);
}

export function formatHttpDate(ms: number): string {
  return new Date(ms).toUTCString();
}

/** "2013-05-24T00:00:00.000Z", as answers in XML have it. */
export function formatIsoDate(ms: number): string {
  return new Date(ms).toISOString();
}

const ISO = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?Z$/;

/** "2013-05-24T00:00:00Z", also with fractions, which do not count; undefined for anything else. */
export function isoTimeOf(text: string): number | undefined {
  const parts = ISO.exec(text)?.slice(1).map(Number);
  return parts === undefined ? undefined : exactTime(parts);
}

function exactTime(parts: readonly number[]): number | undefined {
  const [year, month, day, hour, minute, second] = parts as [number, number, number, number, number, number];
  const ms = Date.UTC(year, month - 1, day, hour, minute, second);
  const date = new Date(ms);
  const isSame =
    date.getUTCFullYear() === year &&
    date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day &&
    date.getUTCHours() === hour &&
    date.getUTCMinutes() === minute &&
    date.getUTCSeconds() === second;
  return isSame ? ms : undefined;
}
