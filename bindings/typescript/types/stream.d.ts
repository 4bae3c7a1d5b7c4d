/**
 * Pieces as they come, then the result: `for await (const piece of stream)`, `await stream.result`. Leaving the loop ends
 * what it is of.
 * @template P, R
 */
export declare class Stream<P, R> {
    #private;
    /** What it ends with. It begins when this or a piece is first asked for. */
    get result(): Promise<R>;
    /** @returns {AsyncGenerator<P, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<P, void, void>;
}
