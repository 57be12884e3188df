// A lint rule: time, timers and randomness come in as arguments (Clock, Random of @concord/runtime), so that the simulator can run
// the same code on its own. Only adapters read the real ones.

/** Functions that are ambient wherever they are called, and what to use instead. */
const BANNED_CALLS = {
  setTimeout: "clock.setTimer",
  setInterval: "clock.setTimer",
  setImmediate: "clock.defer",
  queueMicrotask: "clock.defer",
};

/** object.property pairs; `*` bans every property. */
const BANNED_MEMBERS = {
  Date: { now: "clock.nowMs" },
  Math: { random: "the Random argument" },
  performance: { "*": "clock.monotonicMs" },
  crypto: { "*": "the Random argument" },
  process: { hrtime: "clock.monotonicMs", nextTick: "clock.defer" },
  AbortSignal: { timeout: "clock.setTimer" },
};

/** Modules whose import is ambient; a list names the imports that are, `*` all of them. */
const BANNED_IMPORTS = {
  timers: ["*"],
  "timers/promises": ["*"],
  perf_hooks: ["*"],
  crypto: ["*", "randomBytes", "randomFillSync", "randomFill", "randomInt", "randomUUID", "randomUUIDv7", "getRandomValues", "webcrypto"],
};

const GLOBAL_OBJECTS = new Set(["globalThis", "global", "window", "self"]);

/** `globalThis.x` counts as `x`. */
function globalName(node) {
  if (node.type === "Identifier") return node.name;
  const isGlobalMember = node.type === "MemberExpression" && node.object.type === "Identifier" && GLOBAL_OBJECTS.has(node.object.name);
  return isGlobalMember ? propertyName(node) : undefined;
}

function propertyName(node) {
  if (!node.computed && node.property.type === "Identifier") return node.property.name;
  return node.property.type === "Literal" ? String(node.property.value) : undefined;
}

/** A name the file declares or imports itself is not the ambient one. */
function isLocal(context, node) {
  const name = node.name;
  for (let scope = context.sourceCode.getScope(node); scope !== null; scope = scope.upper) {
    const variable = scope.set.get(name);
    if (variable !== undefined) return variable.defs.length > 0;
  }
  return false;
}

const noAmbient = {
  create(context) {
    const report = (node, what, instead) => context.report({ node, message: `${what} is ambient: use ${instead} (style rule 2)` });
    const isAmbient = (node) => node.type !== "Identifier" || !isLocal(context, node);
    return {
      Identifier(node) {
        const instead = Object.hasOwn(BANNED_CALLS, node.name) ? BANNED_CALLS[node.name] : undefined;
        const isReference = !(node.parent.type === "MemberExpression" && node.parent.property === node) && !isKeyOrDeclaration(node);
        if (instead !== undefined && isReference && !isLocal(context, node)) report(node, node.name, instead);
      },
      MemberExpression(node) {
        const [object, property] = [globalName(node.object), propertyName(node)];
        const banned = object !== undefined && Object.hasOwn(BANNED_MEMBERS, object) ? BANNED_MEMBERS[object] : undefined;
        const instead =
          banned?.["*"] ??
          (property !== undefined && banned !== undefined && Object.hasOwn(banned, property) ? banned[property] : undefined);
        if (instead !== undefined && isAmbient(node.object)) report(node, `${object}.${property}`, instead);
        const own = globalName(node);
        if (own !== undefined && Object.hasOwn(BANNED_CALLS, own)) report(node, own, BANNED_CALLS[own]);
      },
      NewExpression(node) {
        if (globalName(node.callee) === "Date" && node.arguments.length === 0 && isAmbient(node.callee))
          report(node, "new Date()", "clock.nowMs");
      },
      CallExpression(node) {
        if (globalName(node.callee) === "Date" && isAmbient(node.callee)) report(node, "Date()", "clock.nowMs");
      },
      ImportDeclaration(node) {
        if (node.importKind === "type") return;
        const name = node.source.value.replace(/^node:/, "");
        const banned = Object.hasOwn(BANNED_IMPORTS, name) ? BANNED_IMPORTS[name] : undefined;
        if (banned === undefined) return;
        for (const specifier of node.specifiers) {
          const imported = specifier.type === "ImportSpecifier" ? specifier.imported.name : "*";
          const isBanned = banned.includes(imported) || (banned.length === 1 && banned[0] === "*");
          if (isBanned && specifier.importKind !== "type") report(specifier, `${imported} of ${name}`, "the Clock or Random argument");
        }
      },
    };
  },
};

function isKeyOrDeclaration(node) {
  const { parent } = node;
  if (parent.type.endsWith("Specifier")) return true;
  if (parent.type === "Property" || parent.type === "PropertyDefinition" || parent.type === "MethodDefinition")
    return parent.key === node && !parent.shorthand;
  return parent.type.startsWith("TS");
}

export default { meta: { name: "concord" }, rules: { "no-ambient": noAmbient } };
