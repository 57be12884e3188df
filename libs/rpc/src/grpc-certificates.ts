import { experimental } from "@grpc/grpc-js";
import type { Clock } from "@concord/runtime";

type CertificateProvider = experimental.CertificateProvider;
type CaListener = experimental.CaCertificateUpdateListener;
type IdentityListener = experimental.IdentityCertificateUpdateListener;

/** PEM texts of one side. */
export interface Texts {
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
}

/** Gives grpc-js PEM texts that may change: connections made from then on have the new ones. */
export class Certificates implements CertificateProvider {
  readonly #ca = new Set<CaListener>();
  readonly #identity = new Set<IdentityListener>();
  readonly #clock: Clock;
  #texts: Texts;

  constructor(clock: Clock, texts: Texts) {
    this.#clock = clock;
    this.#texts = texts;
  }

  replace(texts: Texts): void {
    this.#texts = texts;
    for (const listener of this.#ca) this.#tellCa(listener);
    for (const listener of this.#identity) this.#tellIdentity(listener);
  }

  /** grpc-js begins to use what a listener hears only after it has added it. */
  addCaCertificateListener(listener: CaListener): void {
    this.#ca.add(listener);
    this.#clock.defer(() => this.#tellCa(listener));
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#ca.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#identity.add(listener);
    this.#clock.defer(() => this.#tellIdentity(listener));
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#identity.delete(listener);
  }

  #tellCa(listener: CaListener): void {
    const { ca } = this.#texts;
    listener(ca === undefined ? null : { caCertificate: Buffer.from(ca) });
  }

  #tellIdentity(listener: IdentityListener): void {
    const { certificate, key } = this.#texts;
    const isWhole = certificate !== undefined && key !== undefined;
    listener(isWhole ? { certificate: Buffer.from(certificate), privateKey: Buffer.from(key) } : null);
  }
}
