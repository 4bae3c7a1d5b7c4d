import type { RawResult } from "../types/wire.d.ts";
/** Write the hints of a result: it names mistakes only. @param {RawResult} raw */
export declare function fillHints(raw: RawResult): void;
/** The hint of a result, for a model. @param {RawResult} raw */
export declare function hintForModel({ error }: RawResult): string | null;
/** What helps against the limit of a result, for a model. @param {RawResult} raw */
export declare function wayForModel({ limit }: RawResult): string;
