/** The operations of a gateway that the admin service needs. */
export interface ObjectAdmin {
  status(): GatewayStatus;
  /** Removes what is due up to `aheadMs` from now. */
  collectGarbage(aheadMs: number): Promise<Collected>;
  reservations(): Promise<readonly Reservation[]>;
  /** Undefined: all buckets. */
  usage(bucket: string | undefined): Promise<readonly Usage[]>;
  checkConsistency(): Promise<Consistency>;
  /** The admin page /scrub: how far the scrub is, and what it found. */
  scrub(): Promise<object>;
}

export interface GatewayStatus {
  readonly instance: string;
  readonly epoch: number;
  readonly journal: "reservation" | "per-transaction" | "per-transaction-basic" | "off";
  readonly recovered: boolean;
  readonly recovery: { readonly epochs: number; readonly referenced: number; readonly collected: number; readonly absent: number };
  readonly inDoubt: number;
  readonly uploadsInFlight: number;
  readonly httpAddress: string;
}

export interface Collected {
  readonly blobs: number;
  readonly bytes: number;
  readonly kept: number;
  readonly pending: number;
}

export interface Reservation {
  readonly epoch: number;
  readonly instance: string;
  readonly reservedTo: number;
  readonly lowWater: number;
  readonly closed: boolean;
}

export interface Usage {
  readonly bucket: string;
  readonly objects: bigint;
  readonly bytes: bigint;
}

export interface Consistency {
  readonly blobs: number;
  readonly referenced: number;
  readonly garbage: number;
  readonly leaked: readonly string[];
  readonly leakedBytes: number;
  readonly dangling: readonly string[];
  readonly danglingRefs: number;
}
