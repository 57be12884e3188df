/**
 * Finds enum numbers without a name in a decoded message. protobufjs passes them through as numbers, so that a handler comparing
 * names would take them for "something else"; a server refuses such a request instead. Messages without enums cost nothing.
 */

/** The parts used here of a google.protobuf.DescriptorProto or EnumDescriptorProto in proto-loader's object form. */
export interface TypeDescriptor {
  readonly name: string;
  readonly field?: readonly FieldDescriptor[];
  readonly nestedType?: readonly TypeDescriptor[];
  readonly enumType?: readonly TypeDescriptor[];
  readonly value?: readonly { readonly name: string; readonly number: number }[];
}

interface FieldDescriptor {
  readonly name: string;
  readonly type: string;
  /** Relative to the type that has the field, or absolute with a leading dot. */
  readonly typeName: string;
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
export function enumChecker(types: ReadonlyMap<string, TypeDescriptor>): (fullName: string) => EnumChecker {
  const plans = new Map<string, Plan>();
  const planOf = (fullName: string): Plan => {
    const known = plans.get(fullName);
    if (known !== undefined) return known;
    const plan: Plan = { checks: [] };
    plans.set(fullName, plan); // before its fields: types may contain themselves
    plan.checks = (types.get(fullName)?.field ?? []).flatMap((field) => checkOf(fullName, field));
    return plan;
  };
  const checkOf = (scope: string, field: FieldDescriptor): FieldCheck[] => {
    if (field.type === "TYPE_ENUM") return [{ name: field.name, inner: undefined }];
    if (field.type !== "TYPE_MESSAGE") return [];
    return [{ name: field.name, inner: planOf(resolveTypeName(types, scope, field.typeName)) }];
  };
  return (fullName) => {
    const plan = planOf(fullName);
    return hasEnum(plan, new Set()) ? (message) => findUnknown(plan, message) : () => undefined;
  };
}

/** The full name that `name` has inside `scope`: the innermost enclosing scope wins, as in protobuf. */
export function resolveTypeName(types: { has(fullName: string): boolean }, scope: string, name: string): string {
  if (name.startsWith(".")) return name.slice(1);
  const path = scope.split(".");
  for (let depth = path.length; depth >= 0; depth -= 1) {
    const candidate = [...path.slice(0, depth), name].join(".");
    if (types.has(candidate)) return candidate;
  }
  throw new Error(`type ${name} in ${scope} is not in the loaded .proto files`);
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
