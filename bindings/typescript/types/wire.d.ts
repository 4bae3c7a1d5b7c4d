// SPDX-License-Identifier: Apache-2.0
// The client protocol (docs/wire.md), as the tables in src/wire have it.

// messages: typescript
/** Requests by method, and what they answer. */
export interface Methods {
  /** The first request; `unsupported`: the daemon speaks another version. */
  "hello": {
    request: {
      /** protocol version: 1 */
      version: number;
    };
    answer: {
      /** protocol version: 1 */
      version: number;
      /** version of the daemon */
      program: string;
      /** process id of the daemon */
      pid: number;
      /** time since the daemon started */
      uptime_ms: number;
      /** state folder of the daemon */
      state_dir?: string;
      /** that folder as DEVICE:INODE, the same in every mount namespace */
      state_id?: string;
    };
  };
  /** Runs a cell. raw = code, then standard input. Answer: the result (docs/result.md); the events below precede it. */
  "exec": {
    request: {
      /** name or id; an unused name opens a session; null: an unnamed session, which ends with the call */
      session?: string | null;
      /** what to run: `python`; `command`; `process`: a command that continues as a detached process when the cell ends, in a named session */
      kind: "python" | "command" | "process";
      /** bytes of code; standard input follows */
      code_len?: number;
      /** standard input is given; else it is /dev/null */
      stdin?: boolean;
      /** for `process`, without `stdin`: standard input stays open for `process.write` */
      open_stdin?: boolean;
      /** for `command` and `process`: program and arguments, with the program looked up in PATH inside; `["/bin/sh", "-c", TEXT]` for a shell line. For `python`: sys.argv of this cell */
      argv?: unknown[] | null;
      /** limits given explicitly, as `limits.h` writes them; the rest come from `defaults` */
      limits?: Record<string, unknown> | null;
      /** send `stdout` and `stderr` as the code writes them; else only at the end */
      stream?: boolean;
      /** send the event `waiting` if the cell cannot begin at once */
      tell_wait?: boolean;
      /** also undo a failed cell; if that is not possible, the request fails with `unsupported` before the cell runs */
      atomic?: boolean;
      /** the Python code may call this client, which replies with `answer` */
      calls?: boolean;
      /** what to do about cells whose effects the session has lost: `ask` (default): fail with `denied` and list the suitable values; `replay`: run them again first; `checkpoint`: continue without them; `skip`: like `replay`, except for cells that failed in an earlier replay */
      recover?: "ask" | "replay" | "checkpoint" | "skip" | null;
      /** docker tier: the code uses the engine's network; refused if the session is open without it */
      network?: boolean;
      /** destroy a session that this call opens soon after the process of this client has ended; ignored for `default` */
      temporary?: boolean;
      /** number of the cell that this one reruns; 0: none */
      rerun_of?: number;
      /** code of the client itself; `history` omits the cell */
      internal?: boolean;
      /** name of a tier; `auto`: the strongest, or a weaker one with `allow_degraded` */
      tier?: string | null;
      /** `base`, `data`, `plot`, an added template, or `venv`: the template of the project's virtual environment. Default, unless `defaults` has one: `venv` if the project has a virtual environment, else `base` */
      template?: string | null;
      /** limits of a session that this call opens. May also contain `template`, `tier`, `rootfs`, `project`, `network` (docker tier: the code uses the engine's network), `guarantees` (names of guarantees that the tier must give) and `configured` (names of the members that the user configured; a limit without its unit, such as `memory`). `not_applied` of the result lists configured members for which an open session keeps another value */
      defaults?: Record<string, unknown> | null;
      /** absolute path of the folder shown at /workspace */
      project?: string | null;
      /** absolute path of a folder whose /usr and /etc replace the host's; in the docker tier IMAGE, IMAGE#RUNTIME or IMAGE#RUNTIME#SOCKET (the socket of the container engine) */
      rootfs?: string | null;
      /** environment variables of the code; the values are strings */
      env?: Record<string, unknown> | null;
      /** run even if this host lacks a control; the manifest names it */
      allow_degraded?: boolean;
      /** refuse if the manifest's `degraded` is not empty, also in an open session */
      require_exact?: boolean;
      /** interrupt the cell if this client disconnects */
      attached?: boolean;
      /** undo the effects of a killed cell, if the tier can */
      transaction?: boolean;
      /** what an answered outcome survives: `synced` (default): a power cut; `process`: the end of the daemon and the tier */
      durability?: "process" | "synced" | null;
      /** when the session is saved: `idle` (default): shortly after its last cell; `after`: after each answer, in parallel with the next cell; `cell`: before each answer; `off`: never */
      checkpoint?: "idle" | "cell" | "off" | "after" | null;
    };
    answer: RawResult;
  };
  /** Interrupts the running cell, like a timeout. */
  "interrupt": {
    request: {
      /** id or name; give this or `request` */
      session?: string;
      /** id of an open `exec` of this client */
      request?: number;
    };
    answer: {
      /** true: a running or waiting cell was interrupted, and ends like a timeout */
      interrupted: boolean;
    };
  };
  /** Answers a call of the code. raw = the answer for the cell's function, at most 4 MiB. */
  "answer": {
    request: {
      /** id of an open `exec` of this client */
      request: number;
      /** number of the open call */
      call: number;
      /** false: the code gets an exception */
      ok: boolean;
    };
    answer: {
      /** true: the call was still open */
      answered: boolean;
    };
  };
  /** Lists all sessions. */
  "sessions.list": {
    request: Record<string, never>;
    answer: {
      /** all sessions */
      sessions: {
        /** 32 hex digits */
        id: string;
        /** name; null: unnamed */
        name: string | null;
        /** name of the tier */
        tier: string;
        /** rank of the tier, as in `probe`; 0: a user's tier */
        rank: number;
        /** name of the template */
        template: string;
        /** `idle`, `running`, `waking`, or, without a sandbox: `hibernated` (nothing is missing), `incomplete` (cells after the checkpoint are missing), `unknown` (the same, and the outcome of the last cell is unknown), `lost` (there is no checkpoint) */
        state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
        /** number of cells run */
        cells: number;
        /** epoch of its sandbox */
        epoch: number;
        /** time of creation, unix seconds */
        created: number;
        /** time of last use, unix seconds */
        used: number;
        /** time since its last cell ended; 0 if not idle */
        idle_ms: number;
        /** path of the project */
        project: string | null;
        /** memory limit */
        memory_bytes: number;
        /** peak memory of the last cell; 0: no sandbox */
        memory_peak_bytes: number;
        /** size of the checkpoints */
        disk_bytes: number;
        /** cell after which the checkpoint was taken */
        checkpoint_cell: number;
        /** why the checkpoint has no image of the memory, although variables alone cannot restore the state */
        no_image?: string;
        /** memory used only by snapshots, as last measured */
        snapshots_bytes: number;
        /** only if the session is incomplete, unknown or lost */
        missing: {
          /** numbers of the missing cells, at most 100 */
          cells: unknown[];
          /** number of missing cells */
          n_cells: number;
          /** files put since the checkpoint, at most 20 */
          files: string[];
          /** number of these files */
          n_files: number;
          /** cell of the latest rollback, if the checkpoint is older */
          rollback: number | null;
          /** all of this as text */
          text: string;
          /** suitable values of `recover` in `exec` */
          recover: string[];
        } | null;
        /** process id of the last client, while it is connected */
        client?: number;
        /** only if the latest save of the session failed */
        unsaved?: {
          /** name of the session */
          session: string;
          /** last cell in the latest successful save; 0: none */
          cell: number;
          /** `disk full`, `journal budget reached`, or another failure */
          reason: string;
          /** `not saved since cell N: REASON` */
          text: string;
          /** the failure, as the head of an ERROR; its remedy is the fix */
          error: Record<string, unknown>;
        };
      }[];
    };
  };
  /** Shows one session. */
  "sessions.show": {
    request: {
      /** id or name */
      session: string;
    };
    answer: {
      /** 32 hex digits */
      id: string;
      /** name; null: unnamed */
      name: string | null;
      /** name of the tier */
      tier: string;
      /** rank of the tier, as in `probe`; 0: a user's tier */
      rank: number;
      /** name of the template */
      template: string;
      /** `idle`, `running`, `waking`, or, without a sandbox: `hibernated` (nothing is missing), `incomplete` (cells after the checkpoint are missing), `unknown` (the same, and the outcome of the last cell is unknown), `lost` (there is no checkpoint) */
      state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
      /** number of cells run */
      cells: number;
      /** epoch of its sandbox */
      epoch: number;
      /** time of creation, unix seconds */
      created: number;
      /** time of last use, unix seconds */
      used: number;
      /** time since its last cell ended; 0 if not idle */
      idle_ms: number;
      /** path of the project */
      project: string | null;
      /** memory limit */
      memory_bytes: number;
      /** peak memory of the last cell; 0: no sandbox */
      memory_peak_bytes: number;
      /** size of the checkpoints */
      disk_bytes: number;
      /** cell after which the checkpoint was taken */
      checkpoint_cell: number;
      /** why the checkpoint has no image of the memory, although variables alone cannot restore the state */
      no_image?: string;
      /** memory used only by snapshots, as last measured */
      snapshots_bytes: number;
      /** only if the session is incomplete, unknown or lost */
      missing: {
        /** numbers of the missing cells, at most 100 */
        cells: unknown[];
        /** number of missing cells */
        n_cells: number;
        /** files put since the checkpoint, at most 20 */
        files: string[];
        /** number of these files */
        n_files: number;
        /** cell of the latest rollback, if the checkpoint is older */
        rollback: number | null;
        /** all of this as text */
        text: string;
        /** suitable values of `recover` in `exec` */
        recover: string[];
      } | null;
      /** process id of the last client, while it is connected */
      client?: number;
      /** only if the latest save of the session failed */
      unsaved?: {
        /** name of the session */
        session: string;
        /** last cell in the latest successful save; 0: none */
        cell: number;
        /** `disk full`, `journal budget reached`, or another failure */
        reason: string;
        /** `not saved since cell N: REASON` */
        text: string;
        /** the failure, as the head of an ERROR; its remedy is the fix */
        error: Record<string, unknown>;
      };
      /** as `limits.h` writes them */
      limits: Record<string, unknown>;
      /** the manifest (docs/result.md); null: no cell has run yet */
      manifest: Record<string, unknown> | null;
    };
  };
  /** Ends a session permanently. */
  "sessions.destroy": {
    request: {
      /** id or name */
      session: string;
      /** keep the snapshots that a run took before its steps */
      keep_steps?: boolean;
    };
    answer: {
      /** true */
      destroyed: boolean;
      /** true: the session is `default`, which is cleared instead */
      reset?: boolean;
      /** the cell that was running, if any */
      ended?: {
        /** number of the cell that was cut off */
        cell: number;
        /** time for which it had run */
        ran_ms: number;
        /** number of waiting cells */
        waiting: number;
      };
    };
  };
  /** Gives a session a fresh interpreter, an empty workspace and no history; name, id and policy stay. */
  "sessions.clear": {
    request: {
      /** id or name */
      session: string;
      /** fail with `denied` if a cell runs or waits */
      idle_only?: boolean;
    };
    answer: {
      /** true */
      cleared: boolean;
      /** epoch of the new sandbox */
      epoch: number;
      /** the cell that was running, if any */
      ended?: {
        /** number of the cell that was cut off */
        cell: number;
        /** time for which it had run */
        ran_ms: number;
        /** number of waiting cells */
        waiting: number;
      };
    };
  };
  /** Saves a session, restores the checkpoint in a second sandbox in the other tier, then ends the session's sandbox; the next cell wakes it there. A hibernated session is restored from its checkpoint. If the request fails, the session is unchanged. */
  "sessions.move": {
    request: {
      /** id or name */
      session: string;
      /** the new tier; not `auto` */
      tier: string;
      /** as in `defaults` of `exec`, for the new tier */
      rootfs?: string;
      /** as in `defaults` of `exec`, for the new tier */
      network?: boolean;
      /** as in `exec`, for the new tier */
      allow_degraded?: boolean;
      /** move even if some items cannot move; these are lost */
      lossy?: boolean;
    };
    answer: {
      /** false: the items in `lost` cannot move, and the session is unchanged */
      moved: boolean;
      /** name of the previous tier */
      from: string;
      /** name of the new tier */
      to: string;
      /** cell after which the checkpoint was taken */
      cell: number;
      /** items that could not be saved, or not be restored in the new tier */
      lost: {
        /** name of a variable, or path of a file */
        name: string;
        /** type of the variable, or kind of file */
        type?: string;
        /** the reason, as text */
        reason: string;
      }[];
    };
  };
  /** Changes limits of a session permanently. Limits that its sandbox cannot change apply at the next wake. If a limit of memory, files or processes is lowered, a hibernated session is woken, and the session is saved and restored on trial with the new limits. `limit`: its data exceeds them, and its limits are unchanged. */
  "sessions.set": {
    request: {
      /** id or name */
      session: string;
      /** limits to change, as `limits.h` writes them */
      limits: Record<string, unknown>;
    };
    answer: {
      /** previous limits, as `limits.h` writes them */
      was: Record<string, unknown>;
      /** new limits */
      limits: Record<string, unknown>;
      /** keys of limits that apply at the next wake, because the sandbox cannot change them or there is no sandbox */
      at_wake: string[];
      /** why the lowered limits could not be tested by restoring the session */
      untried?: string;
      /** as in `sessions.list` */
      state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
    };
  };
  /** Saves a session now. */
  "checkpoint": {
    request: {
      /** id or name */
      session: string;
    };
    answer: {
      /** number of the checkpoint */
      checkpoint: number;
      /** cell after which the checkpoint was taken */
      cell: number;
      /** number of variables and files */
      items: number;
      /** bytes written */
      written_bytes: number;
      /** items unchanged since an older checkpoint */
      same_items: number;
      /** items that could not be saved */
      lost: {
        /** name of a variable, or path of a file */
        name: string;
        /** type of the variable, or kind of file */
        type?: string;
        /** the reason, as text */
        reason: string;
      }[] | null;
      /** an image of the memory contains these items; it can be used while the template is unchanged */
      image?: boolean;
      /** time taken */
      us: number;
    };
  };
  /** Saves a session, restores the checkpoint in a second sandbox with the same limits, then ends the session's sandbox. `limit`: the checkpoint could not be restored; the session stays awake. */
  "hibernate": {
    request: {
      /** id or name */
      session: string;
    };
    answer: {
      /** true */
      hibernated: boolean;
      /** cell after which the checkpoint was taken */
      cell: number;
      /** items that could not be saved or restored */
      lost: {
        /** name of a variable, or path of a file */
        name: string;
        /** type of the variable, or kind of file */
        type?: string;
        /** the reason, as text */
        reason: string;
      }[];
      /** an image of the memory contains these items; it can be used while the template is unchanged */
      image?: boolean;
    };
  };
  /** Lists cells of a session. */
  "history": {
    request: {
      /** id or name */
      session: string;
      /** list cells before this one; 0: start with the last */
      before?: number | null;
      /** number of cells (default 50) */
      limit?: number | null;
    };
    answer: {
      /** cells, newest first */
      cells: {
        /** number of the cell */
        cell: number;
        /** epoch of the sandbox that ran it */
        epoch: number;
        /** as in `exec` */
        kind: "python" | "command" | "process";
        /** as in the result (docs/result.md) */
        status: string;
        /** as in the result (docs/result.md); null: unknown */
        state: string | null;
        /** start, unix seconds */
        started: number;
        /** time taken */
        wall_us: number;
        /** first line of the code */
        first_line: string | null;
        /** the result is stored */
        has_result: boolean;
        /** the replayed cell */
        replay_of: number | null;
        /** the rerun cell */
        rerun_of: number | null;
        /** number of displays that `cell.show` returns; absent: none, or an older version ran the cell */
        displays?: number;
        /** of kind `process`: how the process ended */
        process?: {
          /** `running` or `ended`; of a recorded cell also `unknown`: its sandbox ended first */
          state: "running" | "ended" | "unknown";
          /** exit code; null: running, or ended by a signal */
          exit_code: number | null;
          /** name of the signal that ended it */
          signal: string | null;
        } | null;
      }[];
      /** as in `sessions.list` */
      state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
      /** as in `sessions.list` */
      missing: {
        /** numbers of the missing cells, at most 100 */
        cells: unknown[];
        /** number of missing cells */
        n_cells: number;
        /** files put since the checkpoint, at most 20 */
        files: string[];
        /** number of these files */
        n_files: number;
        /** cell of the latest rollback, if the checkpoint is older */
        rollback: number | null;
        /** all of this as text */
        text: string;
        /** suitable values of `recover` in `exec` */
        recover: string[];
      } | null;
    };
  };
  /** Shows one cell. raw of the answer = code, then standard input. The cell's output comes first, as events of `exec`. */
  "cell.show": {
    request: {
      /** id or name */
      session: string;
      /** number of the cell */
      cell: number;
    };
    answer: {
      /** number of the cell */
      cell: number;
      /** epoch of the sandbox that ran it */
      epoch: number;
      /** as in `exec` */
      kind: "python" | "command" | "process";
      /** as in the result (docs/result.md) */
      status: string;
      /** as in the result (docs/result.md); null: unknown */
      state: string | null;
      /** start, unix seconds */
      started: number;
      /** time taken */
      wall_us: number;
      /** first line of the code */
      first_line: string | null;
      /** the result is stored */
      has_result: boolean;
      /** the replayed cell */
      replay_of: number | null;
      /** the rerun cell */
      rerun_of: number | null;
      /** number of displays that `cell.show` returns; absent: none, or an older version ran the cell */
      displays?: number;
      /** of kind `process`: how the process ended */
      process?: {
        /** `running` or `ended`; of a recorded cell also `unknown`: its sandbox ended first */
        state: "running" | "ended" | "unknown";
        /** exit code; null: running, or ended by a signal */
        exit_code: number | null;
        /** name of the signal that ended it */
        signal: string | null;
      } | null;
      /** as in `exec` */
      argv: unknown[] | null;
      /** standard input was given */
      stdin: boolean;
      /** bytes of standard input */
      stdin_bytes: number;
      /** as in `exec` */
      open_stdin?: boolean;
      /** time limit */
      wall_ms: number;
      /** `gc` has removed its result or output */
      dropped: boolean;
      /** bytes of code; standard input follows */
      code_len: number;
      /** the result (docs/result.md) */
      result: Record<string, unknown> | null;
    };
  };
  /** Lists events of recovery. */
  "journal.events": {
    request: {
      /** number of events (default 50) */
      limit?: number | null;
    };
    answer: {
      /** events, newest first */
      events: {
        /** time, unix seconds */
        at: number;
        /** what happened */
        kind: string;
        /** id of the session */
        session: string | null;
        /** description */
        text: string;
        /** the file that it names was removed, or its session was destroyed */
        solved?: boolean;
      }[];
      /** the journal is encrypted with the store key */
      sealed?: boolean;
      /** number of files of contents older than the key, which are not encrypted */
      unsealed?: number;
    };
  };
  /** Removes contents that nothing needs, then the oldest, until the journal fits its budget. */
  "gc": {
    request: {
      /** budget of the journal in bytes; default: the daemon's */
      budget_bytes?: number | null;
      /** new budget, at least 16 MiB; applies until the daemon ends */
      limit_bytes?: number | null;
    };
    answer: {
      /** bytes freed */
      freed_bytes: number;
      /** files removed */
      blobs: number;
      /** bytes that the journal uses */
      bytes: number;
      /** budget of the journal */
      budget_bytes: number;
      /** the journal fits its budget */
      is_met: boolean;
    };
  };
  /** Takes a snapshot. */
  "snapshot": {
    request: {
      /** id or name */
      session: string;
      /** name (default: s1, s2 and so on) */
      name?: string | null;
      /** answer once it is on disk */
      wait?: boolean;
      /** name of a run's session: the snapshot precedes a step of the run. It is listed for the run only, is on disk only, and is removed first when space is needed */
      run?: string;
      /** number of that step, from 1 */
      step?: number;
    };
    answer: {
      /** id of the snapshot */
      snapshot: string;
      /** name, given or generated */
      name: string;
      /** id of the session */
      session: string;
      /** cell after which it was taken */
      cell: number;
      /** epoch of the session's sandbox */
      epoch: number;
      /** id of the parent snapshot, on which the session was based */
      parent: string | null;
      /** `memory`, `disk` or both */
      where: string[];
      /** time taken */
      us: number;
      /** items that could not be saved */
      lost: unknown[];
      /** why it is not in memory */
      not_in_memory: string | null;
    };
  };
  /** Lists snapshots. */
  "snapshots.list": {
    request: {
      /** only snapshots of this session */
      session?: string | null;
      /** only snapshots taken before steps of the run with this session; the session may no longer exist */
      run?: string;
    };
    answer: {
      /** snapshots, oldest first */
      snapshots: {
        /** id of the snapshot */
        id: string;
        /** name of the snapshot */
        name: string | null;
        /** id of the session */
        session: string;
        /** name of the session */
        session_name: string | null;
        /** id of the parent snapshot */
        parent: string | null;
        /** cell after which it was taken */
        cell: number;
        /** epoch of the session's sandbox */
        epoch: number;
        /** time of creation, unix seconds */
        created: number;
        /** size on disk */
        bytes: number;
        /** items that could not be saved, at most 20 */
        lost: unknown[];
        /** `memory`, `disk` or both */
        where?: string[];
      }[];
      /** snapshot on which `session` is based */
      head: string | null;
      /** the same for all sessions */
      heads: {
        /** id of the session */
        session: string;
        /** name of the session */
        name: string | null;
        /** id of the snapshot */
        snapshot: string;
      }[];
    };
  };
  /** Removes a snapshot. */
  "snapshots.remove": {
    request: {
      /** id or name */
      snapshot: string;
    };
    answer: {
      /** id of the removed snapshot */
      removed: string;
    };
  };
  /** Rolls a session back to a snapshot. */
  "rollback": {
    request: {
      /** id or name */
      snapshot: string;
      /** session to which the snapshot must belong */
      session?: string | null;
    };
    answer: {
      /** id of the session */
      session: string;
      /** name of the session */
      session_name: string;
      /** id of the snapshot */
      snapshot: string;
      /** cell after which the snapshot was taken */
      cell: number;
      /** new epoch of the session */
      epoch: number;
      /** `memory` or `checkpoint` */
      how: string;
      /** time taken */
      us: number;
      /** items that could not be saved */
      lost: unknown[];
      /** items that could not be restored */
      failed: unknown[];
    };
  };
  /** Makes sessions that start as a copy of a session or snapshot. */
  "fork": {
    request: {
      /** a session or snapshot */
      from: string;
      /** number of sessions to make (default 1) */
      n?: number;
      /** prefix of their names */
      name?: string | null;
      /** `name` is the full name, not a prefix; one session is made */
      exact?: boolean;
      /** destroy them soon after the process of this client has ended */
      temporary?: boolean;
    };
    answer: {
      /** the new sessions */
      sessions: {
        /** id of the session */
        session: string;
        /** name of the session */
        name: string;
        /** epoch of its sandbox */
        epoch: number;
      }[];
      /** `image`: each continues exactly from the session's state; `checkpoint`: from saved and restored variables */
      how: string;
      /** why a live session was not forked by image */
      no_image?: string | null;
      /** id of their parent snapshot */
      parent: string | null;
      /** items that could not be saved; empty with `image` */
      lost: unknown[];
      /** items that could not be restored */
      failed: unknown[];
      /** time taken */
      us: number;
    };
  };
  /** Compares two sessions or snapshots. */
  "diff": {
    request: {
      /** a session or snapshot; absent: an empty state, and all files that b has written or deleted are `added` */
      a?: string | null;
      /** another session or snapshot */
      b: string;
    };
    answer: {
      /** variables that differ */
      variables: {
        /** name of the variable */
        name: string;
        /** change from a to b */
        change: "added" | "removed" | "changed";
        /** its type in a */
        type_a: string | null;
        /** its type in b */
        type_b: string | null;
      }[];
      /** files that differ */
      files: {
        /** change from a to b */
        change: "added" | "removed" | "changed";
        /** path below /workspace */
        path: string;
        /** bytes of the path in hexadecimal, if they are not UTF-8 */
        path_hex?: string;
        /** hash of the contents in a */
        a: string | null;
        /** `file`, `dir`, `link`, `deleted`; absent, like the next three, if a does not have it */
        type_a?: string;
        /** size in bytes */
        size_a?: number;
        /** permissions */
        mode_a?: number;
        /** target of a link */
        target_a?: string;
        /** hash of the contents in b */
        b: string | null;
        /** as `type_a` */
        type_b?: string;
        /** as `size_a` */
        size_b?: number;
        /** as `mode_a` */
        mode_b?: number;
        /** as `target_a` */
        target_b?: string;
        /** a folder that hides the project's contents below it */
        opaque_b?: boolean;
      }[];
      /** the list is incomplete */
      truncated: boolean;
      /** items of a that could not be saved */
      lost_a: unknown[];
      /** items of b that could not be saved */
      lost_b: unknown[];
    };
  };
  /** Reads contents by their hash. raw of the answer = bytes. */
  "blob": {
    request: {
      /** 64 hex digits */
      hash: string;
      /** first byte */
      offset: number;
      /** maximum number of bytes */
      length: number;
    };
    answer: {
      /** size of the contents */
      size: number;
      /** this is the end */
      eof: boolean;
    };
  };
  /** Writes a session or snapshot into a file: events `data` (raw = the file of docs/archive.md), then the answer. */
  "export": {
    request: {
      /** a session or snapshot */
      from: string;
    };
    answer: {
      /** name of the session */
      name: string;
      /** cell after which it was taken */
      cell: number;
      /** size of the file */
      bytes: number;
      /** items that could not be saved */
      lost: unknown[];
    };
  };
  /** Begins an import. */
  "import.begin": {
    request: {
      /** name of the session (default: the name in the file) */
      name?: string | null;
      /** maximum limits of the imported session */
      limits?: Record<string, unknown>;
      /** limits that override those in the file */
      given?: Record<string, unknown>;
      /** tier of the session */
      tier?: string;
      /** as in `exec` */
      allow_degraded?: boolean;
      /** as in `exec` */
      require_exact?: boolean;
    };
    answer: {
      /** id of the import, which ends with the connection */
      token: string;
    };
  };
  /** Receives a part of the file. raw = at most 1 MiB. */
  "import.data": {
    request: {
      /** id of the import, which ends with the connection */
      token: string;
    };
    answer: Record<string, never>;
  };
  /** Makes a session from the file. */
  "import.end": {
    request: {
      /** id of the import, which ends with the connection */
      token: string;
    };
    answer: {
      /** id of the session */
      session: string;
      /** name of the session */
      name: string;
      /** cell after which it was taken */
      cell: number;
      /** differences from the file */
      notes: unknown[];
      /** items that could not be saved */
      lost: unknown[];
      /** items that could not be restored */
      failed: unknown[];
    };
  };
  /** Writes into a file; a path that ends in a slash makes a folder. raw = at most 1 MiB. If `durability` of the latest `exec` is `synced`, the session is saved before the answer; if that fails, `unsaved` of the answer gives the reason. A part of 1 MiB, or one with `more`, is saved with the next part, which may be empty. */
  "put": {
    request: {
      /** id or name */
      session: string;
      /** path below /workspace; `.` and repeated slashes are ignored */
      path: string;
      /** position at which the bytes are written */
      offset: number;
      /** end the file after these bytes */
      truncate?: boolean;
      /** permissions; 0: mode 0644 */
      mode?: number;
      /** more requests follow; the session is saved with the last one */
      more?: boolean;
    };
    answer: {
      /** size of the file */
      size: number;
    };
  };
  /** Reads from a file. raw of the answer = bytes. */
  "get": {
    request: {
      /** id or name */
      session: string;
      /** path below /workspace; `.` and repeated slashes are ignored */
      path: string;
      /** first byte */
      offset: number;
      /** maximum number of bytes */
      length: number;
      /** zeros may be reported as a hole */
      holes?: boolean;
    };
    answer: {
      /** size of the file */
      size: number;
      /** permissions */
      mode: number;
      /** this is the end */
      eof: boolean;
      /** with `holes`: number of zero bytes from `offset` on, which are not sent */
      hole?: number;
      /** with `holes`: maximum total size of the files of the session */
      room?: number;
      /** with `holes`: the session has a project, whose files are not included in `room` */
      project?: boolean;
    };
  };
  /** Lists a folder. */
  "ls": {
    request: {
      /** id or name */
      session: string;
      /** path below /workspace; `.` and repeated slashes are ignored */
      path: string;
    };
    answer: {
      /** entries of the folder */
      entries: {
        /** name of the entry */
        name: string;
        /** `file`, `dir`, `link`, `other` */
        type: string;
        /** size in bytes */
        size: number;
        /** time of modification, unix seconds */
        mtime: number | null;
      }[];
      /** the list is incomplete */
      truncated: boolean;
    };
  };
  /** Reads stored output of a cell. raw of the answer = bytes. */
  "output": {
    request: {
      /** `output.handle` of a result */
      handle: string;
      /** `stdout`, `stderr` */
      stream: string;
      /** first byte */
      offset: number;
      /** maximum number of bytes */
      length: number;
    };
    answer: {
      /** bytes stored */
      size: number;
      /** this is the end */
      eof: boolean;
      /** the cell printed more than is stored */
      truncated?: boolean;
    };
  };
  /** Lists the detached processes of a session; none if it has no sandbox. */
  "process.list": {
    request: {
      /** id or name */
      session: string;
    };
    answer: {
      /** running and ended processes, oldest first */
      processes: {
        /** number of the process: that of the cell that started it */
        process: number;
        /** program and arguments; `...` replaces those after 4 KiB */
        argv: string[];
        /** start, unix seconds */
        started: number;
        /** `running` or `ended`; of a recorded cell also `unknown`: its sandbox ended first */
        state: "running" | "ended" | "unknown";
        /** exit code; null: running, or ended by a signal */
        exit_code: number | null;
        /** name of the signal that ended it */
        signal: string | null;
        /** its standard input is open for `process.write` */
        stdin?: boolean;
        /** bytes written to standard output so far */
        stdout_bytes: number;
        /** bytes written to standard error so far */
        stderr_bytes: number;
      }[];
    };
  };
  /** Reads output of a detached process. raw of the answer = bytes of standard output, then of standard error. The last bytes of each stream are stored, as many as the limit `output` of the session, at most 256 KiB. */
  "process.read": {
    request: {
      /** id or name */
      session: string;
      /** number of the process */
      process: number;
      /** position in standard output from which to read */
      stdout: number;
      /** position in standard error from which to read */
      stderr: number;
      /** maximum number of bytes of both together; 0: only wait for the end */
      length: number;
      /** time to wait for output or the end of the process, if there is none to read */
      wait_ms?: number;
    };
    answer: {
      /** `running` or `ended`; of a recorded cell also `unknown`: its sandbox ended first */
      state: "running" | "ended" | "unknown";
      /** exit code; null: running, or ended by a signal */
      exit_code: number | null;
      /** name of the signal that ended it */
      signal: string | null;
      /** position of the first returned byte; larger than requested if the earlier bytes are no longer stored */
      stdout: number;
      /** bytes of standard output in raw */
      stdout_len: number;
      /** position of the first returned byte */
      stderr: number;
      /** bytes of standard error in raw */
      stderr_len: number;
      /** the process has ended, and no output follows */
      eof: boolean;
    };
  };
  /** Writes to the standard input of a detached process that was started with `open_stdin`. raw = at most 64 KiB; without bytes it only closes. `not_found`: the process has ended, or has closed its standard input. */
  "process.write": {
    request: {
      /** id or name */
      session: string;
      /** number of the process */
      process: number;
      /** then close standard input, if all bytes were taken */
      close?: boolean;
      /** time to wait for room, if no byte can be taken now; nothing is written after the wait */
      wait_ms?: number;
    };
    answer: {
      /** bytes taken; the caller sends the rest again */
      written: number;
    };
  };
  /** Sends a signal to a detached process. */
  "process.signal": {
    request: {
      /** id or name */
      session: string;
      /** number of the process */
      process: number;
      /** number of the signal, sent to the process group */
      signal: number;
    };
    answer: {
      /** false: the process had ended, and left no process in its group */
      sent: boolean;
    };
  };
  /** Reports what the daemon uses. */
  "stats": {
    request: Record<string, never>;
    answer: {
      /** number of open sessions */
      sessions: number;
      /** number of connected clients */
      clients: number;
      /** resident memory of the daemon */
      rss_bytes: number;
      /** process id of the daemon */
      pid: number;
      /** sessions whose latest save failed */
      unsaved?: {
        /** name of the session */
        session: string;
        /** last cell in the latest successful save; 0: none */
        cell: number;
        /** `disk full`, `journal budget reached`, or another failure */
        reason: string;
        /** `not saved since cell N: REASON` */
        text: string;
        /** the failure, as the head of an ERROR; its remedy is the fix */
        error: Record<string, unknown>;
      }[];
    };
  };
  /** Reports what this host can do. */
  "probe": {
    request: {
      /** name of a tier (default: the strongest) */
      tier?: string;
    };
    answer: {
      /** features that this host has or lacks */
      features: {
        /** name of a control or feature */
        name: string;
        /** this host has it */
        ok: boolean;
        /** what was found */
        detail: string | null;
        /** what does not work without this feature */
        cost: string | null;
        /** how to get it */
        fix: string | null;
      }[];
      /** the tier works here */
      usable: boolean;
      /** strength: `auto` chooses the highest; a tier below 100 only with `allow_degraded` */
      rank: number;
      /** `auto` never chooses it */
      by_name?: boolean;
      /** controls that are always in force: names of the manifest, and `namespaces` (host files and processes are invisible) */
      guarantees: string[];
      /** parts of the names of runtimes that run the code on a separate kernel, and so give the guarantee `kernel` */
      kernels?: string[] | null;
      /** supported methods of the tier protocol, and features: `rootfs` (other file systems), `images` (`save` and `load` with images), `copies` (a project is copied into the workspace) */
      verbs: string[];
      /** how each limit is enforced, by key; `approximate: ...` if not exact */
      limits: Record<string, unknown>;
      /** controls that are weaker on this host, as in the manifest: `NAME: reason` */
      degraded?: string[];
    };
  };
  /** Saves all sessions and ends the daemon. `denied`: sessions could not be saved, and the daemon continues. Requests that wait for a session are refused (`peer`). A running cell is cut off, and the state before the cell is saved; if that is not possible, or files were put while the cell ran, the cell has 5 s to end. Snapshots in memory are written first. */
  "shutdown": {
    request: {
      /** end even if sessions cannot be saved; their unsaved work is lost */
      force?: boolean;
    };
    answer: {
      /** sessions that cannot be restored completely, and snapshots that could not be written */
      lost: {
        /** name or id */
        session: string;
        /** why it could not be saved; may be empty */
        reason: string;
        /** items that could not be saved or restored */
        lost: {
          /** name of a variable, or path of a file */
          name: string;
          /** type of the variable, or kind of file */
          type?: string;
          /** the reason, as text */
          reason: string;
        }[];
        /** an image of the memory contains these items */
        image?: boolean;
      }[];
    };
  };
  /** Starts a run, or resumes one. raw = the prompt, or the task of an agent. The result is sent as `result` events, then the answer. */
  "run": {
    request: {
      /** instructions to the model, before the prompt */
      system?: string;
      /** id of the run to resume, or the beginning of the id; without a prompt */
      resume?: string;
      /** run an agent: iterate until the final answer */
      agent?: boolean;
      /** working folder of the run */
      folder?: string;
      /** `KEY=VALUE`: keys of the configuration, and options of `run`, `agent` or `resume` (`output_dir`: `--output`) */
      settings?: string[];
      /** tools of the program */
      tools?: {
        /** name by which the model calls it */
        name: string;
        /** description for the model */
        description?: string;
        /** JSON Schema of the arguments (default: none) */
        parameters?: Record<string, unknown>;
        /** timeout of a call; 0: 30 s */
        timeout_ms?: number;
      }[];
      /** send `record` events */
      records?: boolean;
      /** send `text` events */
      text?: boolean;
    };
    answer: Record<string, never>;
  };
  /** Reads the configuration without a run, and sends it as `result` events. */
  "settings": {
    request: {
      /** folder whose configuration is read */
      folder?: string;
      /** `KEY=VALUE`, as in `run` */
      settings?: string[];
    };
    answer: Record<string, never>;
  };
  /** Runs a command without a terminal. Its `--json` output is sent as `result` events. */
  "command": {
    request: {
      /** `diff`, `export`, `import` or `apply`, then the arguments of the command */
      words: string[];
    };
    answer: Record<string, never>;
  };
}

/** The result of a cell: docs/result.md. */
export interface RawResult {
  /** attested; id */
  session: string;
  /** attested; number in its session, from 1 */
  cell: number;
  /** attested; epoch of the sandbox that ran it: 1, increased each time the session is woken, rolled back or cleared */
  epoch?: number;
  /** attested, but `ok` and `error` of Python code are claimed; `ok`, `error` (exception, or exit code other than 0), `timeout`, `oom`, `killed`, `limit` or `interrupted`. Cells without a result can also have, in `history` and `show`: `running`; `refused`: could not run, and had no effect; `unknown`: the daemon or the machine ended while it ran */
  status: "ok" | "error" | "timeout" | "oom" | "killed" | "limit" | "interrupted";
  /** attested; `kept`: not undone. `rolled_back`: the cell was killed (or failed, with `atomic`); variables and files are as before the cell, within the limits of `transaction`, and earlier processes of the session have ended. `lost`: the interpreter was killed; variables are reset, files stay (if `transaction.workspace` is `copied`, they are as before the cell). `restored_from_checkpoint`: the cell was killed, and the session is back at its latest checkpoint */
  state: "kept" | "rolled_back" | "restored_from_checkpoint" | "lost";
  /** attested for commands, else claimed. For Python: the code of SystemExit, or of the last failed line with !; null if there is neither */
  exit_code: number | null;
  /** attested; name of the signal that ended the interpreter or command during the cell, unless it was the kill that undoes a cell after its end */
  signal: string | null;
  /** claimed; at most `output` characters: beginning and end */
  stdout?: string;
  /** claimed; as stdout */
  stderr?: string;
  /** claimed; repr of the last expression */
  value: string | null;
  /** claimed; repr of the variable `result`, if the cell assigned it */
  result: string | null;
  /** claimed; [{mime type: text, or base64 for binary types}] */
  displays?: unknown[];
  /** claimed; the exception, if any */
  error: {
    /** name of the exception */
    type: string;
    /** message of the exception */
    message: string;
    /** as Python prints it */
    traceback: string | null;
    /** line of the cell */
    line: number | null;
    /** advice for `cause` and `module`, which each front end words for its users: command-line options, library options, or actions of a model */
    hint: string | null;
    /** the `rule` of a denial, or "no such file", "no such program", "no such module", "no input", "notebook", "shell line" */
    cause?: string | null;
    /** path of a missing file */
    path?: string | null;
    /** for a failed import: {`name`, `templates`: templates that contain it, `command`: a command that adds it} */
    module?: Record<string, unknown> | null;
  } | null;
  /** refused operations */
  denials: {
    /** kernel, limit, guest */
    source: string;
    /** network, resources, filesystem, syscalls */
    control: string;
    /** attempted operation */
    operation: string;
    /** object of the operation */
    object: string | null;
    /** the rule that refused it */
    rule: string | null;
    /** advice for `rule`, as in `error` */
    hint: string | null;
    /** number of times */
    count: number;
  }[];
  /** attested; number of denials beyond the 32 listed */
  denials_dropped: number;
  /** attested; the cell began in a new interpreter, because the previous one was killed; `state` of that cell was `lost` */
  restarted: boolean;
  /** attested; protection of this cell, determined before it ran; names in notes are claimed. /tmp and /dev/shm are never protected */
  transaction?: {
    /** standby, off, unavailable, dropped_for_memory */
    interpreter: string;
    /** copied, off, unavailable */
    workspace: string;
    /** reasons, and effects that would not be undone */
    notes: string[];
  };
  /** attested; the limit that ended or cut the cell */
  limit: {
    /** configuration key of the limit */
    key: string;
    /** value of the limit */
    value: number;
    /** description */
    text: string;
    /** the option that raises it */
    flag: string;
  } | null;
  /** attested; resources that the cell used */
  usage: {
    /** time taken */
    wall_us: number;
    /** CPU time */
    cpu_us: number | null;
    /** peak memory of the cell; with cgroup v2 before kernel 6.12, of the session so far */
    memory_peak_bytes: number | null;
    /** bytes written to standard output */
    stdout_bytes: number;
    /** bytes written to standard error */
    stderr_bytes: number;
    /** bytes written to files */
    written_bytes: number | null;
    /** time before the cell began */
    setup_us: number;
  };
  /** attested; size of the printed output */
  output: {
    /** output was cut */
    truncated: boolean;
    /** total number of characters */
    stdout_chars: number;
    /** total number of characters */
    stderr_chars: number;
    /** handle of the full text (at most 64 MiB of a stream, if the disk of the state folder has room). It can be read until the session is destroyed or cleared, other sessions need the room, or the daemon ends; null: nothing was cut or stored */
    handle: string | null;
  };
  /** attested; changes in the workspace */
  files: {
    /** paths below /workspace */
    created: string[];
    /** paths below /workspace */
    modified: string[];
    /** paths below /workspace */
    deleted: string[];
    /** the lists are incomplete */
    truncated: boolean;
    /** {path: XXH64 of the contents}, for comparison with a replay: of changed regular files, the first 256 of at most 4 MiB together; absent if there are none */
    hashes?: Record<string, unknown>;
  };
  /** attested; enforced controls, see below */
  manifest?: {
    /** name of the tier */
    tier: string;
    /** name of the template */
    template: string;
    /** {`network`, `resources`, `filesystem`, `syscalls`, `disposable`}: each {`enforced`: bool, ...details} */
    controls: Record<string, unknown>;
    /** missing or weaker controls */
    degraded: string[];
    [more: string]: unknown;
  };
  /** attested; which members are attested or claimed */
  sources: {
    /** names of members */
    attested: string[];
    /** names of members */
    claimed: string[];
  };
  /** attested; name of the session; null: unnamed */
  name: string | null;
  /** attested; only in the first cell after the session was woken: how it was restored */
  restored: {
    /** number of the checkpoint; null: there was none */
    checkpoint: number | null;
    /** cell after which the checkpoint was taken */
    cell: number;
    /** later cells that were dropped at the caller's request, or omitted by `skip` */
    missing: unknown[];
    /** cells that ran again */
    replayed: unknown[];
    /** [{`name`, `reason`}] items that could not be saved or restored. `cell N`: its replay differs from its first run in value, result, exit code, error, displays, output, or changed files (names and contents). The contents of a file without a hash (`files.hashes`) are listed as not compared. In a new session, the session's name: an older one may have been lost with a damaged journal */
    failed: unknown[];
    /** files put after the checkpoint and dropped at the caller's request */
    missing_puts: unknown[];
    /** only if some state cannot be saved as variables: true if the session continues exactly, from an image of its memory */
    image?: boolean;
    /** why it does not */
    no_image?: string;
    /** time taken */
    wake_us: number;
  } | null;
  /** attested; only with `checkpoint: "cell"` */
  checkpoint?: {
    /** answer of the method `checkpoint` */
    made: Record<string, unknown> | null;
    /** why there is no checkpoint */
    error: string | null;
  };
  /** attested; settings in `configured` of the request, and the engine in DOCKER_HOST, for which the session keeps another value; absent if none */
  not_applied?: {
    /** `tier`, `template`, `project`, `rootfs`, `engine`, `network`, or a limit such as `memory` */
    setting: string;
    /** value in the session */
    session: string;
    /** configured value */
    asked: string;
  }[];
  /** attested; keys of changed limits that apply only at the next wake; absent if none */
  at_wake?: string[];
  /** attested; only if the latest save of the session failed: {`session`, `cell`, `reason`, `text`, `error`}, as in docs/wire.md */
  unsaved?: Record<string, unknown>;
}

/** Events before the answer, by name. */
export interface Events {
  waiting: {
    /** current activity of the session */
    for: "run" | "save" | "rollback";
    /** number of the running cell */
    cell: number | null;
    /** time since it began, in milliseconds */
    ms: number;
    /** number of cells waiting ahead of it */
    ahead: number;
  };
  stdout: Record<string, never>;
  stderr: Record<string, never>;
  gap: {
    /** output stream */
    stream: "stdout" | "stderr";
    /** number of characters omitted from the middle */
    omitted_chars: number;
    /** XXH64 of the whole stream, for comparison with a replay */
    hash?: string;
  };
  display: {
    /** [[type, byte length], ...]; raw = the parts, concatenated */
    mime: unknown[];
  };
  call: {
    /** number of the call in the cell; raw = the request, at most 4 MiB */
    call: number;
  };
  taken: Record<string, never>;
  gone: {
    /** id of the sandbox */
    session: string;
    /** why it ended without a request */
    reason: string;
  };
  begun: {
    /** id of the new or continued record */
    trajectory_id: string;
  };
  record: {
    /** true: the last part; raw = text */
    last?: boolean;
  };
  text: Record<string, never>;
  note: Record<string, never>;
  tool: {
    /** number of the call in the run; raw = the arguments, a JSON object */
    call: number;
    /** name of the tool */
    tool: string;
  };
  result: {
    /** true: the last part; raw = text */
    last?: boolean;
  };
}

/** Why a request failed. */
export interface Failure {
  /** kind of failure */
  code: string;
  /** the facts; does not name options or arguments */
  message: string;
  /** error number of the system call that failed */
  errno?: number;
  /** name of the affected object, or `cell` */
  object?: string;
  /** the limit that was met */
  limit?: {
    /** key of the limit that was met */
    name: string;
    /** as a number */
    value?: number;
  };
  /** the fix, which the client puts into words */
  remedy?: {
    /** one of those below; later versions may add others */
    kind: string;
    /** see the kind */
    name?: string;
    /** for `raise_limit`: a sufficient value; -1: none */
    value?: number;
    /** for `recover`: suitable values of `recover` in `exec` */
    ways?: string[];
  };
}
// end
