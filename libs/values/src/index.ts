export type { Literal } from "./cell-type.ts";
export { canonicalValue, keyProblem, valueBytes, valueProblem, valueText } from "./checks.ts";
export { compareValues } from "./compare-values.ts";
export { fromJavaScript, javaScriptToWire, literalValue, takenBy, toJavaScript, type LiteralOutcome } from "./conversions.ts";
export type { CellMessage, CellModel, CellOf, CellType, CellValue, JavaScriptValue } from "./model.ts";
export { encodeKeyValue, readCellValue, readKeyValue, writeCellValue, writeKeyValue } from "./stored-values.ts";
export { CELL_TYPES, isCellType } from "./table.ts";
export { TOKEN_MAX, tokenOf } from "./token.ts";
export { cellFromWire, cellToWire } from "./wire-values.ts";
