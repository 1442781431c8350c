// Torch's generator on the CPU, number for number: a seed here starts the network that the same seed starts there.

const N = 624;
const M = 397;

/** Mersenne twister, and the doubles that torch makes of it. */
export class Chance {
  private readonly state = new Uint32Array(N);
  private left = 0;
  private spare: number | null = null; // the second of two normal numbers, kept for the next call

  constructor(seed: number) {
    let last = seed >>> 0;
    this.state[0] = last;
    for (let k = 1; k < N; k++) {
      last = (Math.imul(1812433253, last ^ (last >>> 30)) + k) >>> 0;
      this.state[k] = last;
    }
  }

  private turn(): void {
    const s = this.state;
    for (let k = 0; k < N; k++) {
      const y = (s[k]! & 0x80000000) | (s[(k + 1) % N]! & 0x7fffffff);
      s[k] = s[(k + M) % N]! ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.left = N;
  }

  private bits(): number {
    if (!this.left) this.turn();
    let y = this.state[N - this.left--]!;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** Uniform in [0, 1), of 53 bits. */
  unit(): number {
    const high = this.bits() & 0x1fffff;
    return (high * 4294967296 + this.bits()) / 9007199254740992;
  }

  /** tensor.uniform_(-bound, bound) */
  uniform(into: Float64Array, bound: number): void {
    for (let k = 0; k < into.length; k++) into[k] = this.unit() * (bound + bound) - bound;
  }

  /** tensor.normal_(0, deviation): from 16 numbers on in groups of 16, the last group drawn anew where it overlaps. */
  normal(into: Float64Array, deviation: number): void {
    if (into.length < 16) {
      for (let k = 0; k < into.length; k++) into[k] = this.one() * deviation;
      return;
    }
    for (let k = 0; k < into.length; k++) into[k] = this.unit();
    for (let k = 0; k < into.length - 15; k += 16) sixteen(into.subarray(k, k + 16), deviation);
    if (into.length % 16) {
      const last = into.subarray(into.length - 16);
      for (let k = 0; k < 16; k++) last[k] = this.unit();
      sixteen(last, deviation);
    }
  }

  private one(): number {
    if (this.spare !== null) {
      const kept = this.spare;
      this.spare = null;
      return kept;
    }
    const angle = 2 * Math.PI * this.unit();
    const radius = Math.sqrt(-2 * Math.log1p(-this.unit()));
    this.spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  }
}

function sixteen(numbers: Float64Array, deviation: number): void {
  for (let k = 0; k < 8; k++) {
    const radius = Math.sqrt(-2 * Math.log(1 - numbers[k]!));
    const angle = 2 * Math.PI * numbers[k + 8]!;
    numbers[k] = radius * Math.cos(angle) * deviation;
    numbers[k + 8] = radius * Math.sin(angle) * deviation;
  }
}
