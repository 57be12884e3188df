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
  readonly label: string;
  readonly type: string;
  readonly typeName: string;
}

/** The name of the first field with an unknown enum number. */
export type EnumChecker = (message: object) => string | undefined;

interface FieldCheck {
  readonly name: string;
  /** Undefined: the field is an enum itself. */
  readonly inner: Plan | undefined;
}

interface Plan {
  checks: readonly FieldCheck[];
}

export function enumChecker(lookup: (fullName: string) => TypeDescriptor | undefined): (type: TypeDescriptor) => EnumChecker {
  const plans = new Map<TypeDescriptor, Plan>();
  const planOf = (type: TypeDescriptor): Plan => {
    const known = plans.get(type);
    if (known !== undefined) return known;
    const plan: Plan = { checks: [] };
    plans.set(type, plan); // before its fields: types may contain themselves
    plan.checks = (type.field ?? []).flatMap((field) => checkOf(field));
    return plan;
  };
  const checkOf = (field: FieldDescriptor): FieldCheck[] => {
    if (field.type === "TYPE_ENUM") return [{ name: field.name, inner: undefined }];
    if (field.type !== "TYPE_MESSAGE") return [];
    const type = lookup(field.typeName.replace(/^\./, ""));
    return type === undefined ? [] : [{ name: field.name, inner: planOf(type) }];
  };
  return (type) => {
    const plan = planOf(type);
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
      const found = check.inner === undefined ? (typeof one === "number" ? check.name : undefined) : findInner(check, one);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function findInner(check: FieldCheck, value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const found = findUnknown(check.inner!, value);
  return found === undefined ? undefined : `${check.name}.${found}`;
}
