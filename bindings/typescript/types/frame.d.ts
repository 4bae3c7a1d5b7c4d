export declare const REQUEST = 1;
export declare const RESPONSE = 2;
export declare const ERROR = 3;
export declare const EVENT = 4;
export type Frame = {
    type: number;
    id: number;
    head: any;
    raw: Buffer;
};
/** @typedef {{type: number, id: number, head: any, raw: Buffer}} Frame */
/**
 * @param {number} type
 * @param {number} id
 * @param {object} head
 * @param {Uint8Array} raw
 */
export declare function encodeFrame(type: number, id: number, head: object, raw: Uint8Array): Buffer<ArrayBuffer>;
/** Collects received bytes and yields whole frames. */
export declare class FrameReader {
    #private;
    /**
     * SandboxLost: the peer broke the protocol, and no later bytes can be read.
     * @param {Buffer} bytes
     * @returns {Generator<Frame>}
     */
    take(bytes: Buffer): Generator<Frame>;
}
