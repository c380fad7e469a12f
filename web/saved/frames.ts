// Writes column frames as the server does (`serve/frames.py`); texts are ids into names.

/** Name, type and values of each column. */
export type Columns = [string, string, number[]][];

const ARRAYS: Record<string, { from(values: number[]): { buffer: ArrayBufferLike; byteLength: number } }> = {
  i4: Int32Array, u1: Uint8Array, text: Uint32Array, f8: Float64Array,
};
const ALIGNMENT = 8;

export function encode(columns: Columns, names: string[]): ArrayBuffer {
  // Only names that occur are sent.
  const ids = new Map<number, number>();
  const used: string[] = [];
  const idOf = (id: number) => {
    if (!ids.has(id)) ids.set(id, used.push(names[id]!) - 1);
    return ids.get(id)!;
  };
  const parts = columns.map(([, type, values]) => ARRAYS[type]!.from(type === "text" ? values.map(idOf) : values));
  const header = (start: number) => {
    let offset = start;
    const described = columns.map(([name, type], k) => {
      const bytes = parts[k]!.byteLength;
      const one = { name, type, unit: null, offset, bytes, nulls: null };
      offset = aligned(offset + bytes);
      return one;
    });
    const text = JSON.stringify({ schema: 1, meta: { unavailable: null }, length: columns[0]?.[2].length ?? 0, names: used, columns: described });
    return { text: new TextEncoder().encode(text), end: offset };
  };
  // Large offsets reserve room for the digits of the real ones.
  const start = aligned(4 + header(2 ** 40).text.length);
  const { text, end } = header(start);
  const out = new Uint8Array(end).fill(32, 0, start);
  new DataView(out.buffer).setUint32(0, start - 4, true);
  out.set(text, 4);
  let offset = start;
  for (const part of parts) {
    out.set(new Uint8Array(part.buffer), offset);
    offset = aligned(offset + part.byteLength);
  }
  return out.buffer;
}

function aligned(size: number): number {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}
