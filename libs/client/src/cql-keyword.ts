/** Whether a statement begins with the keyword, comments aside. */
export function beginsWith(keyword: "select" | "begin", cql: string): boolean {
  const [, first] = /^(?:\s|--[^\n]*\n|\/\/[^\n]*\n|\/\*[\s\S]*?\*\/)*(\w+)/.exec(cql) ?? [];
  return first?.toLowerCase() === keyword;
}
