/** @typedef {{type: number, id: number, head: any, raw: Buffer}} Frame */
/**
 * @param {number} type
 * @param {number} id
 * @param {object} head
 * @param {Uint8Array} raw
 */
export function encodeFrame(type: number, id: number, head: object, raw: Uint8Array): Buffer<ArrayBuffer>;
export const REQUEST: 1;
export const RESPONSE: 2;
export const ERROR: 3;
export const EVENT: 4;
/** Takes bytes as they come, and gives whole frames. */
export class FrameReader {
    /**
     * SandboxLost: the peer broke the protocol. Its bytes are of no use any more.
     * @param {Buffer} bytes
     * @returns {Generator<Frame>}
     */
    take(bytes: Buffer): Generator<Frame>;
    #private;
}
export type Frame = {
    type: number;
    id: number;
    head: any;
    raw: Buffer;
};
