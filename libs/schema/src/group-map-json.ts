import { SYSTEM_GROUP, type GroupMap } from "./group-map.ts";
import { SCHEMA_LIMITS } from "./limits.ts";
import { arrayOf, corrupt, countOf, objectOf, storedObject, textOf } from "./stored-json.ts";
import { TOKEN_MAX } from "@concord/values";

/** How a group map is stored and spread: JSON, `formatVersion` 1, bigints as decimal strings. */
export function groupMapToJson(map: GroupMap): string {
  return JSON.stringify({
    formatVersion: 1,
    version: map.version.toString(),
    systemMaster: map.systemMaster,
    groups: map.groups.map(({ id, fromToken, master }) => ({ id, fromToken: fromToken.toString(), master })),
  });
}

/** The inverse, strict: CORRUPT_DATA also when a token would have no group or two (I3). */
export function groupMapFromJson(text: string): GroupMap {
  const stored = storedObject("group map", text, ["version", "systemMaster", "groups"]);
  const groups = arrayOf("groups", stored["groups"], (value) => {
    const group = objectOf("group", value, ["id", "fromToken", "master"]);
    return {
      id: textOf("group id", group["id"]),
      fromToken: countOf("group's first token", group["fromToken"]),
      master: textOf("group's master", group["master"]),
    };
  });
  const map = {
    version: countOf("group map version", stored["version"]),
    systemMaster: textOf("system master", stored["systemMaster"]),
    groups,
  };
  const problem = problemOf(map);
  if (problem !== undefined) throw corrupt("group map", problem);
  return map;
}

function problemOf(map: GroupMap): string | undefined {
  const { groups } = map;
  if (groups.length < 1 || groups.length > SCHEMA_LIMITS.groupsMax) return `has ${groups.length} groups`;
  if (groups[0]!.fromToken !== 0n) return "does not begin at token 0";
  if (groups.some((group, at) => at > 0 && group.fromToken <= groups[at - 1]!.fromToken)) return "is not in token order";
  if (groups.at(-1)!.fromToken > TOKEN_MAX) return "has a token of more than 64 bits";
  const ids = new Set(groups.map((group) => group.id));
  if (ids.size !== groups.length || ids.has(SYSTEM_GROUP)) return "names a group twice";
  if (map.version < 1n || map.systemMaster === "" || groups.some((group) => group.id === "" || group.master === ""))
    return "has an empty field";
  return undefined;
}
