// Static imports and re-exports begin a line (the formatter sees to it), so that code inside a string is not taken for one.
const STATIC = /^[ \t]*(?:import|export)\b(?:[\w\s{},*$]*?\bfrom)?\s*["']([^"'\n]+)["']/gm;
const DYNAMIC = /\b(?:import|require|import\.meta\.resolve)\(\s*["']([^"'\n]+)["']\s*[,)]/g;
const COMMENTS = /^[ \t]*\/\/.*$|^[ \t]*\/\*[^]*?\*\/|[ \t]+\/\/ .*$/gm;

/** The module names a source text imports, types included: static, dynamic with a literal name, `require`, re-exports. */
export function importsOf(source: string): string[] {
  const code = source.replaceAll(COMMENTS, "");
  const found = [...code.matchAll(STATIC), ...code.matchAll(DYNAMIC)].map((match) => match[1]!);
  return [...new Set(found)];
}

const PROTO_IMPORT = /^import (?:public )?"concord\/(\w+)\/v\d+\/[^"]+";/gm;

/** What the generated module of one of our .proto files imports: the standard contracts and those of other packages. */
export function protoImports(source: string): string[] {
  const own = /^package concord\.(\w+)\./m.exec(source)?.[1];
  if (own === undefined) return [];
  const packages = [...source.matchAll(PROTO_IMPORT)].map((match) => match[1]!).filter((name) => name !== own);
  return [...new Set(["@concord/protos", ...packages.map((name) => `@concord/protos-${name}`)])];
}
