/** @returns {string} */
export declare function socketPath(): string;
/**
 * Code is sent only to this user's daemon: check that the folder of the socket belongs to this user alone.
 * False: there is no folder yet. The daemon makes it; check again then, since another user may make it first.
 * @param {string} path
 */
export declare function checkOwner(path: string): boolean;
/**
 * The daemon does not take its folder from a program, so a program that names another is refused.
 * @param {{state_dir?: string, state_id?: string}} greeting an older daemon sends neither
 */
export declare function checkState({ state_dir: folder, state_id: id }: {
    state_dir?: string;
    state_id?: string;
}): void;
/**
 * The program: SNIPARA_SANDBOX_BIN (the program or its folder), else in PATH.
 * @returns {string}
 */
export declare function findProgram(): string;
/** Start the daemon unless one runs: any command that needs it does so, and waits until it answers. */
export declare function startDaemon(): Promise<void>;
