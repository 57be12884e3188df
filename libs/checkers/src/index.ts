export { checkAlbums, checkFinalAlbum, type AlbumAnomaly, type AlbumExpectation, type AlbumRead, type PhotoFact } from "./album.ts";
export { checkBank, type BankAnomaly, type BankRead, type BankRules } from "./bank.ts";
export { checkBatches, checkBatchReads, type BatchAnomaly, type BatchFact, type BatchRead, type Sighting } from "./batch.ts";
export type { Anomaly, AnomalyKind, CycleKind, Element, MicroOperation, Transaction } from "./list-append-history.ts";
export { checkListAppend, type ListAppendReport } from "./list-append.ts";
export { checkRegister, type RegisterEffect, type RegisterOperation, type RegisterVerdict } from "./register.ts";
