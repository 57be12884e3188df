/**
 * Finds enum numbers without a name in a decoded message. protobufjs passes them through as numbers, so that a handler comparing
 * names would take them for "something else"; a server refuses such a request instead. Messages without enums cost nothing.
 */

/** A message or an enum in protobufjs's JSON form; the parts used here. */
export interface TypeDefinition {
  readonly fields?: Readonly<Record<string, FieldDefinition>>;
  readonly nested?: Readonly<Record<string, TypeDefinition>>;
  /** Of an enum. */
  readonly values?: Readonly<Record<string, number>>;
}

interface FieldDefinition {
  /** Of a message or an enum: ".concord.common.v1.RowKey". */
  readonly type: string;
}

/** Returns the path of the first field with an unknown enum number, undefined when there is none. */
export type EnumChecker = (message: object) => string | undefined;

interface Plan {
  checks: readonly FieldCheck[];
}

interface FieldCheck {
  readonly name: string;
  /** Undefined: the field is an enum itself. */
  readonly inner: Plan | undefined;
}

/** Makes checkers by the full name of a message; `types` has every message and enum by full name. */
export function enumChecker(types: ReadonlyMap<string, TypeDefinition>): (fullName: string) => EnumChecker {
  const plans = new Map<string, Plan>();
  const planOf = (fullName: string): Plan => {
    const known = plans.get(fullName);
    if (known !== undefined) return known;
    const plan: Plan = { checks: [] };
    plans.set(fullName, plan); // before its fields: types may contain themselves
    plan.checks = Object.entries(types.get(fullName)?.fields ?? {}).flatMap(([name, { type }]) => checkOf(name, type));
    return plan;
  };
  const checkOf = (name: string, type: string): FieldCheck[] => {
    if (!type.startsWith(".")) return [];
    const typeName = type.slice(1);
    return [{ name, inner: types.get(typeName)?.values === undefined ? planOf(typeName) : undefined }];
  };
  return (fullName) => {
    const plan = planOf(fullName);
    return hasEnum(plan, new Set()) ? (message) => findUnknown(plan, message) : () => undefined;
  };
}

function hasEnum(plan: Plan, seen: Set<Plan>): boolean {
  if (seen.has(plan)) return false;
  seen.add(plan);
  return plan.checks.some((check) => check.inner === undefined || hasEnum(check.inner, seen));
}

function findUnknown(plan: Plan, message: object): string | undefined {
  for (const check of plan.checks) {
    const value = (message as Record<string, unknown>)[check.name];
    for (const one of Array.isArray(value) ? value : [value]) {
      const found = findInField(check, one);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function findInField(check: FieldCheck, value: unknown): string | undefined {
  if (check.inner === undefined) return typeof value === "number" ? check.name : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  const found = findUnknown(check.inner, value);
  return found === undefined ? undefined : `${check.name}.${found}`;
}
