// Whose ids a caller may send: a source is a name in which ids are compared (DDD13).
import type { Caller } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { SOURCE_PATTERN } from "../limits.ts";
import { malformed } from "../rpc/wire.ts";

/** As configured: the source is for these callers alone. The empty name: ids without a source. */
export interface ReservedSource {
  readonly name: string;
  readonly callers: readonly string[];
}

export interface SourceRules {
  /**
   * The source of a call's ids, undefined: of none. What a worker passes on was decided by it. MALFORMED_REQUEST: no name of a source, or none where the
   * caller has several; PERMISSION_DENIED: another caller's.
   */
  sourceFor(caller: Caller, requested: string, isForwarded: boolean): string | undefined;
  /** Some sources are reserved: workers pass calls on with their own token, which says that the source was checked. */
  readonly areReserved: boolean;
}

/**
 * A caller that is named at some source uses the sources it is named at, and no other; any other caller those that no caller is named at. So a source with
 * callers is for them alone, and without any configured source every caller uses whatever it names.
 */
export function sourceRules(reserved: readonly ReservedSource[]): SourceRules {
  const byCaller = new Map<string, Set<string>>();
  for (const { name, callers } of reserved)
    for (const caller of callers) byCaller.set(caller, (byCaller.get(caller) ?? new Set()).add(name));
  const names = new Set(reserved.map(({ name }) => name));
  const decide = (caller: Caller, requested: string): string => {
    const own = caller.name === undefined ? undefined : byCaller.get(caller.name);
    if (own === undefined) {
      if (names.has(requested)) throw denied(caller, requested);
      return requested;
    }
    if (own.has(requested)) return requested;
    if (requested !== "") throw denied(caller, requested);
    const [only, ...others] = own;
    if (others.length === 0) return only!;
    throw malformed(`name the source of the ids: one of ${[...own].join(", ")}`);
  };
  return {
    sourceFor: (caller, requested, isForwarded) => {
      if (requested !== "" && !SOURCE_PATTERN.test(requested))
        throw malformed("a source is named by 1 to 64 letters, digits, -, _, . or @");
      const source = isForwarded && caller.role === "peer" ? requested : decide(caller, requested);
      return source === "" ? undefined : source;
    },
    areReserved: reserved.length > 0,
  };
}

function denied({ name, role }: Caller, source: string): ConcordError {
  const what = source === "" ? "ids without a source" : `the source ${source}`;
  return new ConcordError("PERMISSION_DENIED", `${name ?? role} may not use ${what}: the setting sources says who may`, {
    metadata: { source },
  });
}
