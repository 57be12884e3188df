import { unreachable, type DiskFile } from "@concord/runtime";
import type { JournalOptions } from "./api.ts";
import { ZEROS_PER_SYNC_BYTES } from "./limits.ts";
import { inFolder } from "./segment.ts";

/** Never holds a record: it gets a segment's name first (I10). Opening removes what a crash left. */
export const PREPARED_NAME = "prepared";

const ZEROS = new Uint8Array(ZEROS_PER_SYNC_BYTES);
const nothing = (): void => undefined;

type State =
  | { readonly kind: "none" }
  | { readonly kind: "preparing"; readonly done: Promise<void> }
  | { readonly kind: "ready"; readonly file: DiskFile }
  /** Not tried again before the next segment: the disk may be full, and appends can do without. */
  | { readonly kind: "failed" }
  | { readonly kind: "closed" };

/** The next segment's file: zeros, made durable in the background. Its failure is a slower journal, not an error. */
export class PreparedFile {
  readonly path: string;
  readonly #options: JournalOptions;
  readonly #bytes: number;
  #state: State = { kind: "none" };

  constructor(options: JournalOptions, bytes: number) {
    this.#options = options;
    this.#bytes = bytes;
    this.path = inFolder(options.folder, PREPARED_NAME);
  }

  get isReady(): boolean {
    return this.#state.kind === "ready";
  }

  /** Begins in the background, unless it has, or failed since the last `take`. */
  begin(): void {
    if (this.#bytes === 0 || this.#state.kind !== "none") return;
    this.#state = { kind: "preparing", done: this.#prepare() };
  }

  /** The file, when it is ready: the caller's from now on. */
  take(): DiskFile | undefined {
    const state = this.#state;
    if (state.kind === "ready" || state.kind === "failed") this.#state = { kind: "none" };
    return state.kind === "ready" ? state.file : undefined;
  }

  /** Waits for the write under way; the file is removed. */
  async close(): Promise<void> {
    const state = this.#state;
    this.#state = { kind: "closed" };
    switch (state.kind) {
      case "preparing":
        return await state.done;
      case "ready":
        return await this.#discard(state.file);
      case "none":
      case "failed":
      case "closed":
        return;
      default:
        unreachable(state);
    }
  }

  /** Never rejects. */
  async #prepare(): Promise<void> {
    const { disk, folder, log, failpoint } = this.#options;
    let file: DiskFile | "exists" | undefined;
    try {
      file = await disk.create(this.path);
      if (file === "exists") throw new Error(`${this.path} exists`);
      for (let at = 0; at < this.#bytes && this.#state.kind === "preparing"; at += ZEROS.length) {
        await file.write(at, [ZEROS.subarray(0, Math.min(ZEROS.length, this.#bytes - at))]);
        await file.sync();
      }
      failpoint?.("journal:prepared");
      if (this.#state.kind === "preparing") this.#state = { kind: "ready", file };
      else await this.#discard(file);
    } catch (thrown) {
      log?.info("no journal file is prepared, the next one grows", { folder, cause: String(thrown) });
      if (this.#state.kind === "preparing") this.#state = { kind: "failed" };
      if (file !== undefined && file !== "exists") await this.#discard(file);
    }
  }

  async #discard(file: DiskFile): Promise<void> {
    await file.close().catch(nothing);
    await this.#options.disk.remove(this.path).catch(nothing);
  }
}
