import { assert } from "./assert.ts";
import { FREE_FACTOR } from "./fair-shares.ts";
import { RotatingMap } from "./rotating-map.ts";

interface Member {
  used: number;
}

interface Owner extends Member {
  readonly members: RotatingMap<string, Member>;
}

/** The part of a whole that one owner can have when no other has any: `FREE_FACTOR` times what it leaves. */
const ALONE = FREE_FACTOR / (FREE_FACTOR + 1);

/**
 * As `FairShares`, on two levels: no owner (a caller, an address) can use up the amount, and no member of an owner (a connection) what its owner may
 * have. So one client leaves something to the others that share its token or its address.
 */
export class NestedShares {
  readonly #max: number;
  readonly #owners = new RotatingMap<string, Owner>();
  #used = 0;

  constructor(max: number) {
    assert(max > 0, "there is something to share");
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** False: nothing was taken; the owner or the member has too much, or too little is left. One that has nothing takes whatever is free. */
  take(ownerName: string, memberName: string, amount: number): boolean {
    assert(amount >= 0, "an amount is not negative");
    const owner = this.#owners.get(ownerName);
    const free = this.#max - this.#used - amount;
    if (free < 0) return false;
    const member = owner?.members.get(memberName);
    if (owner !== undefined && !this.#leavesEnough(owner, member, amount, free)) return false;
    this.#give(ownerName, owner, memberName, member, amount);
    return true;
  }

  giveBack(ownerName: string, memberName: string, amount: number): void {
    const owner = this.#owners.get(ownerName);
    const member = owner?.members.get(memberName);
    assert(owner !== undefined && member !== undefined && member.used >= amount, "what is given back was taken");
    this.#used -= amount;
    owner.used -= amount;
    member.used -= amount;
    if (member.used === 0) owner.members.delete(memberName);
    if (owner.used === 0) this.#owners.delete(ownerName);
  }

  #leavesEnough(owner: Owner, member: Member | undefined, amount: number, free: number): boolean {
    if (owner.used > 0 && owner.used + amount > FREE_FACTOR * free) return false;
    if (member === undefined || member.used === 0) return true;
    const ownerMax = (this.#max - this.#used + owner.used) * ALONE;
    return member.used + amount <= FREE_FACTOR * (ownerMax - owner.used - amount);
  }

  #give(ownerName: string, known: Owner | undefined, memberName: string, knownMember: Member | undefined, amount: number): void {
    const owner = known ?? { used: 0, members: new RotatingMap<string, Member>() };
    const member = knownMember ?? { used: 0 };
    if (known === undefined) this.#owners.set(ownerName, owner);
    if (knownMember === undefined) owner.members.set(memberName, member);
    this.#used += amount;
    owner.used += amount;
    member.used += amount;
  }
}
