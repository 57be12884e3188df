import { assert } from "./assert.ts";

/** The folder names and file name of a disk path; empty for the root. A path that leaves the root is a failed assertion. */
export function diskSegments(path: string): readonly string[] {
  if (path === "") return [];
  const segments = path.split("/");
  for (const segment of segments) {
    const isName = segment !== "" && segment !== "." && segment !== ".." && !/[\\\0]/.test(segment);
    assert(isName, `disk path ${JSON.stringify(path)} has a segment that is no name`);
  }
  return segments;
}

/** The folder a path lies in; "" for what lies in the root. */
export function folderOf(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
}
