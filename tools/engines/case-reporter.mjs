// A reporter of node:test: a line per ended test, as JSON, with the file it is in.
export default async function* caseReporter(source) {
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    yield `${JSON.stringify({ name: data.name, file: data.file, isPassed: type === "test:pass" })}\n`;
  }
}
