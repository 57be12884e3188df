// One bad request and the code it is answered with; parts of requests.
import type { ErrorCode } from "@concord/runtime";
import type { CoordinatorFixture, Service } from "./coordinator-fixture.ts";

export interface Turn {
  /** The next operation of a transaction that is open on album 1. */
  readonly operation: { transactionId: Uint8Array; number: number };
  readonly fixture: CoordinatorFixture;
  /** Id of an album of another group than album 1. */
  readonly farAlbum: number;
}

export interface Case {
  readonly method: string;
  readonly what: string;
  readonly code: ErrorCode;
  readonly service?: Service;
  request(turn: Turn): object;
}

export const id = (turn: Turn): Uint8Array => turn.fixture.id();
export const statement = (text: string, ...binds: object[]): object => ({ statement: { text, binds } });
export const many = <Item>(count: number, item: (at: number) => Item): Item[] => Array.from({ length: count }, (_, at) => item(at));
