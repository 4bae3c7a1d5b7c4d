import type { RawResult } from "../types/wire.d.ts";
/** Add the hints to a result, which has only the names of mistakes. @param {RawResult} raw */
export declare function fillHints(raw: RawResult): void;
/** The hint of a result, for a model. @param {RawResult} raw */
export declare function hintForModel({ error }: RawResult): string | null;
/** The remedy for the limit of a result, for a model. @param {RawResult} raw */
export declare function wayForModel({ limit }: RawResult): string;
