// SPDX-License-Identifier: Apache-2.0
// The client protocol (docs/wire.md), as the tables in src/wire have it.

// messages: typescript
/** Requests by method, and what they answer. */
export interface Methods {
  /** The first request; `unsupported`: the daemon speaks another version. */
  "hello": {
    request: {
      /** of the protocol: 1 */
      version: number;
    };
    answer: {
      /** of the protocol: 1 */
      version: number;
      /** version of the daemon */
      program: string;
      /** of the daemon */
      pid: number;
      /** since the daemon started */
      uptime_ms: number;
      /** the state folder of the daemon */
      state_dir?: string;
      /** that folder as DEVICE:INODE, the same in every mount namespace */
      state_id?: string;
    };
  };
  /** Runs a cell. raw = code, then standard input. Answer: the result (docs/result.md); the events below come first. */
  "exec": {
    request: {
      /** name or id; a new name opens a session; null: a session that ends with the call */
      session?: string | null;
      /** what to run */
      kind: "python" | "command";
      /** bytes of code; what follows them is standard input */
      code_len?: number;
      /** standard input was given; else it is /dev/null */
      stdin?: boolean;
      /** for `command`: strings, found in PATH inside; `["/bin/sh", "-c", TEXT]` for a shell line. For `python`: sys.argv of this cell */
      argv?: unknown[] | null;
      /** limits given explicitly, as `limits.h` writes them; the rest come from `defaults` */
      limits?: Record<string, unknown> | null;
      /** send `stdout` and `stderr` as they come; else only at the end */
      stream?: boolean;
      /** send the event `waiting` if the cell cannot begin at once */
      tell_wait?: boolean;
      /** a failed cell is undone too; `unsupported`, before the cell runs, if that is not possible */
      atomic?: boolean;
      /** its Python code may call this client, which answers by `answer` */
      calls?: boolean;
      /** what to do about cells whose effects the session has lost: `ask` (default): fail with `denied` and name the values that fit; `replay`: run them again first; `checkpoint`: continue without them; `skip`: as `replay`, without cells that failed in a replay before */
      recover?: "ask" | "replay" | "checkpoint" | "skip" | null;
      /** docker tier: code has the engine's network; refused if the session is open without it */
      network?: boolean;
      /** a session that this call opens is destroyed soon after the process of this client has ended; not of `default` */
      temporary?: boolean;
      /** number of the cell that this one reruns; 0: no rerun */
      rerun_of?: number;
      /** code of the client itself: `history` leaves the cell out */
      internal?: boolean;
      /** name of a tier; `auto`: the strongest, or a weaker one with `allow_degraded` */
      tier?: string | null;
      /** `base`, `data`, `plot`, an added one, or `venv`, the project's own. Default, if `defaults` has none: `venv` if the project has one, else base */
      template?: string | null;
      /** limits for a session that this call opens; may contain `template`, `tier`, `rootfs`, `project`, `network`: code has the engine's (docker tier), `guarantees`: names that the session's tier must give, and `configured`: names of members that the user configured (a limit without its unit: `memory`); `not_applied` of the result lists those for which an open session keeps another value */
      defaults?: Record<string, unknown> | null;
      /** absolute path of the folder seen at /workspace */
      project?: string | null;
      /** absolute path of a folder whose /usr and /etc replace the host's; in the docker tier IMAGE, IMAGE#RUNTIME or IMAGE#RUNTIME#SOCKET (the socket of the container engine) */
      rootfs?: string | null;
      /** variables that reach the code, strings */
      env?: Record<string, unknown> | null;
      /** run although a control cannot be had; the manifest says which */
      allow_degraded?: boolean;
      /** refuse, also in an open session, if the manifest's `degraded` is not empty */
      require_exact?: boolean;
      /** interrupt the cell if this client goes away */
      attached?: boolean;
      /** a cell that is killed leaves nothing behind, where the tier can do that */
      transaction?: boolean;
      /** `synced` (default): the outcome survives a power cut before it is answered; `process`: the end of our own processes */
      durability?: "process" | "synced" | null;
      /** when the session is saved: `idle` (default): shortly after its last cell; `after`: from each answer on, beside the next cell; `cell`: before each answer; `off` */
      checkpoint?: "idle" | "cell" | "off" | "after" | null;
    };
    answer: RawResult;
  };
  /** Ends the running cell as a timeout does. */
  "interrupt": {
    request: {
      /** id or name; either this or `request` */
      session?: string;
      /** id of an open `exec` of this client */
      request?: number;
    };
    answer: {
      /** a cell ran or waited; it ends as a timeout would end it */
      interrupted: boolean;
    };
  };
  /** Answers a call of the code. raw = at most 4 MiB, as the cell's functions understand it. */
  "answer": {
    request: {
      /** id of an open `exec` of this client */
      request: number;
      /** number of its open call */
      call: number;
      /** false: the code gets an exception */
      ok: boolean;
    };
    answer: {
      /** the call was still waited for */
      answered: boolean;
    };
  };
  /** Lists all sessions. */
  "sessions.list": {
    request: Record<string, never>;
    answer: {
      /** all of them */
      sessions: {
        /** 32 hex digits */
        id: string;
        /** null: an unnamed session */
        name: string | null;
        /** name of its tier */
        tier: string;
        /** of its tier, as in `probe`; 0: the tier is the user's own */
        rank: number;
        /** name of its template */
        template: string;
        /** hibernated: asleep, nothing missing; incomplete: asleep, and cells after its checkpoint are missing; unknown: the same, and the outcome of its last cell is unknown; lost: asleep, without a checkpoint */
        state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
        /** number of cells run */
        cells: number;
        /** of its sandbox */
        epoch: number;
        /** unix seconds */
        created: number;
        /** unix seconds, last */
        used: number;
        /** since its last cell ended */
        idle_ms: number;
        /** path of its project */
        project: string | null;
        /** its limit */
        memory_bytes: number;
        /** of its last cell; 0: it is asleep */
        memory_peak_bytes: number;
        /** of its checkpoints */
        disk_bytes: number;
        /** the cell its checkpoint was taken after */
        checkpoint_cell: number;
        /** why its checkpoint has no image of the memory, if variables alone do not hold its state */
        no_image?: string;
        /** memory that only its snapshots have, as last measured */
        snapshots_bytes: number;
        /** of a session that is incomplete, unknown or lost */
        missing: {
          /** numbers, the first 100 */
          cells: unknown[];
          /** how many */
          n_cells: number;
          /** files put since the checkpoint, 20 of them */
          files: string[];
          /** how many */
          n_files: number;
          /** the cell of the last rollback, if the checkpoint is older */
          rollback: number | null;
          /** all of this as text */
          text: string;
          /** values of `exec`'s `recover` that fit */
          recover: string[];
        } | null;
        /** process id of the last client, while it is connected */
        client?: number;
        /** only if the latest save of the session failed */
        unsaved?: {
          /** its name */
          session: string;
          /** last cell before the latest successful save; 0: none */
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
      /** null: an unnamed session */
      name: string | null;
      /** name of its tier */
      tier: string;
      /** of its tier, as in `probe`; 0: the tier is the user's own */
      rank: number;
      /** name of its template */
      template: string;
      /** hibernated: asleep, nothing missing; incomplete: asleep, and cells after its checkpoint are missing; unknown: the same, and the outcome of its last cell is unknown; lost: asleep, without a checkpoint */
      state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
      /** number of cells run */
      cells: number;
      /** of its sandbox */
      epoch: number;
      /** unix seconds */
      created: number;
      /** unix seconds, last */
      used: number;
      /** since its last cell ended */
      idle_ms: number;
      /** path of its project */
      project: string | null;
      /** its limit */
      memory_bytes: number;
      /** of its last cell; 0: it is asleep */
      memory_peak_bytes: number;
      /** of its checkpoints */
      disk_bytes: number;
      /** the cell its checkpoint was taken after */
      checkpoint_cell: number;
      /** why its checkpoint has no image of the memory, if variables alone do not hold its state */
      no_image?: string;
      /** memory that only its snapshots have, as last measured */
      snapshots_bytes: number;
      /** of a session that is incomplete, unknown or lost */
      missing: {
        /** numbers, the first 100 */
        cells: unknown[];
        /** how many */
        n_cells: number;
        /** files put since the checkpoint, 20 of them */
        files: string[];
        /** how many */
        n_files: number;
        /** the cell of the last rollback, if the checkpoint is older */
        rollback: number | null;
        /** all of this as text */
        text: string;
        /** values of `exec`'s `recover` that fit */
        recover: string[];
      } | null;
      /** process id of the last client, while it is connected */
      client?: number;
      /** only if the latest save of the session failed */
      unsaved?: {
        /** its name */
        session: string;
        /** last cell before the latest successful save; 0: none */
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
      /** docs/result.md; null: it has not run yet */
      manifest: Record<string, unknown> | null;
    };
  };
  /** Ends a session for good. */
  "sessions.destroy": {
    request: {
      /** id or name */
      session: string;
      /** snapshots that a run took before its steps stay */
      keep_steps?: boolean;
    };
    answer: {
      /** true */
      destroyed: boolean;
      /** true: it is the session `default`, which is cleared instead */
      reset?: boolean;
      /** if a cell ran */
      ended?: {
        /** number of the cell that was cut off */
        cell: number;
        /** how long it had run */
        ran_ms: number;
        /** how many cells waited */
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
      /** of its new sandbox */
      epoch: number;
      /** if a cell ran */
      ended?: {
        /** number of the cell that was cut off */
        cell: number;
        /** how long it had run */
        ran_ms: number;
        /** how many cells waited */
        waiting: number;
      };
    };
  };
  /** Saves a session, restores the checkpoint in a second sandbox in the other tier, then ends the session's sandbox; the next cell wakes it there. For a hibernated session its checkpoint is used. On an error the session is unchanged. */
  "sessions.move": {
    request: {
      /** id or name */
      session: string;
      /** the new tier; not `auto` */
      tier: string;
      /** there, as the member of `defaults` of `exec` */
      rootfs?: string;
      /** there, as the member of `defaults` of `exec` */
      network?: boolean;
      /** there, as in `exec` */
      allow_degraded?: boolean;
      /** move even if items cannot move; they are lost */
      lossy?: boolean;
    };
    answer: {
      /** false: the items in `lost` cannot move, and the session is unchanged */
      moved: boolean;
      /** name of the tier it was in */
      from: string;
      /** name of the new tier */
      to: string;
      /** the checkpoint is the state after this cell */
      cell: number;
      /** what could not be saved here or restored there */
      lost: {
        /** of a variable, or a path */
        name: string;
        /** of a variable, or what kind of file */
        type?: string;
        /** for people */
        reason: string;
      }[];
    };
  };
  /** Changes limits of a session permanently. Limits that its sandbox cannot change apply at the next wake. If a limit of memory, files or processes is lowered, a sleeping session is woken, and the session is saved and restored on trial with the new limits; `limit`: its data do not fit, and its limits are unchanged. */
  "sessions.set": {
    request: {
      /** id or name */
      session: string;
      /** limits to change, as `limits.h` writes them */
      limits: Record<string, unknown>;
    };
    answer: {
      /** its limits before, as `limits.h` writes them */
      was: Record<string, unknown>;
      /** its limits now */
      limits: Record<string, unknown>;
      /** keys of limits that apply at the next wake, because its sandbox cannot change them or it is asleep */
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
      /** its number */
      checkpoint: number;
      /** it is the state after this cell */
      cell: number;
      /** variables and files */
      items: number;
      /** written for it */
      written_bytes: number;
      /** items that an older checkpoint has */
      same_items: number;
      /** what could not be saved */
      lost: {
        /** of a variable, or a path */
        name: string;
        /** of a variable, or what kind of file */
        type?: string;
        /** for people */
        reason: string;
      }[] | null;
      /** an image of the memory holds these items; usable while the template is unchanged */
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
      /** the checkpoint is the state after this cell */
      cell: number;
      /** what could not be saved or restored */
      lost: {
        /** of a variable, or a path */
        name: string;
        /** of a variable, or what kind of file */
        type?: string;
        /** for people */
        reason: string;
      }[];
      /** an image of the memory holds these items; usable while the template is unchanged */
      image?: boolean;
    };
  };
  /** Lists cells of a session. */
  "history": {
    request: {
      /** id or name */
      session: string;
      /** cell; 0: from the last */
      before?: number | null;
      /** cells, 50 if not given */
      limit?: number | null;
    };
    answer: {
      /** the newest first */
      cells: {
        /** number */
        cell: number;
        /** of the sandbox that ran it */
        epoch: number;
        /** as in `exec` */
        kind: "python" | "command";
        /** docs/result.md */
        status: string;
        /** docs/result.md; null: not known */
        state: string | null;
        /** unix seconds */
        started: number;
        /** time taken */
        wall_us: number;
        /** of its code */
        first_line: string | null;
        /** its result is stored */
        has_result: boolean;
        /** cell it was a replay of */
        replay_of: number | null;
        /** cell it was a rerun of */
        rerun_of: number | null;
        /** number of displays that `cell.show` returns; absent: none, or an older version ran the cell */
        displays?: number;
      }[];
      /** as in `sessions.list` */
      state: "idle" | "running" | "waking" | "hibernated" | "incomplete" | "unknown" | "lost";
      /** as in `sessions.list` */
      missing: {
        /** numbers, the first 100 */
        cells: unknown[];
        /** how many */
        n_cells: number;
        /** files put since the checkpoint, 20 of them */
        files: string[];
        /** how many */
        n_files: number;
        /** the cell of the last rollback, if the checkpoint is older */
        rollback: number | null;
        /** all of this as text */
        text: string;
        /** values of `exec`'s `recover` that fit */
        recover: string[];
      } | null;
    };
  };
  /** Shows one cell. raw of the answer = code, then standard input. The cell's output comes first, as events of `exec`. */
  "cell.show": {
    request: {
      /** id or name */
      session: string;
      /** number */
      cell: number;
    };
    answer: {
      /** number */
      cell: number;
      /** of the sandbox that ran it */
      epoch: number;
      /** as in `exec` */
      kind: "python" | "command";
      /** docs/result.md */
      status: string;
      /** docs/result.md; null: not known */
      state: string | null;
      /** unix seconds */
      started: number;
      /** time taken */
      wall_us: number;
      /** of its code */
      first_line: string | null;
      /** its result is stored */
      has_result: boolean;
      /** cell it was a replay of */
      replay_of: number | null;
      /** cell it was a rerun of */
      rerun_of: number | null;
      /** number of displays that `cell.show` returns; absent: none, or an older version ran the cell */
      displays?: number;
      /** as in `exec` */
      argv: unknown[] | null;
      /** standard input was given */
      stdin: boolean;
      /** bytes of standard input */
      stdin_bytes: number;
      /** its time limit */
      wall_ms: number;
      /** gc has taken its result or output */
      dropped: boolean;
      /** bytes of code; what follows them is standard input */
      code_len: number;
      /** docs/result.md */
      result: Record<string, unknown> | null;
    };
  };
  /** Lists what recovery did. */
  "journal.events": {
    request: {
      /** events, 50 if not given */
      limit?: number | null;
    };
    answer: {
      /** the newest first */
      events: {
        /** unix seconds */
        at: number;
        /** what happened */
        kind: string;
        /** id */
        session: string | null;
        /** for people */
        text: string;
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
      /** set the budget of the daemon until it ends, from 16 MiB */
      limit_bytes?: number | null;
    };
    answer: {
      /** freed now */
      freed_bytes: number;
      /** files removed */
      blobs: number;
      /** bytes that the journal uses now */
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
      /** else s1, s2... */
      name?: string | null;
      /** answer only once it is on disk */
      wait?: boolean;
      /** name of a run's session, before a step of the run: the snapshot is listed for the run only, kept on disk only, and removed first when space is needed */
      run?: string;
      /** number of that step, from 1 */
      step?: number;
    };
    answer: {
      /** id */
      snapshot: string;
      /** given or made */
      name: string;
      /** id */
      session: string;
      /** it is the state after this cell */
      cell: number;
      /** of the session's sandbox */
      epoch: number;
      /** id of the snapshot the session stood on */
      parent: string | null;
      /** of memory, disk */
      where: string[];
      /** time taken */
      us: number;
      /** what could not be saved */
      lost: unknown[];
      /** why it is not */
      not_in_memory: string | null;
    };
  };
  /** Lists snapshots. */
  "snapshots.list": {
    request: {
      /** only snapshots of this session */
      session?: string | null;
      /** only snapshots taken before steps of the run with this session, which may no longer exist */
      run?: string;
    };
    answer: {
      /** the oldest first */
      snapshots: {
        /** of the snapshot */
        id: string;
        /** of the snapshot */
        name: string | null;
        /** id */
        session: string;
        /** its name */
        session_name: string | null;
        /** id of a snapshot */
        parent: string | null;
        /** it is the state after this cell */
        cell: number;
        /** of the session's sandbox */
        epoch: number;
        /** unix seconds */
        created: number;
        /** on disk */
        bytes: number;
        /** at most 20 */
        lost: unknown[];
        /** of memory, disk */
        where?: string[];
      }[];
      /** the snapshot that `session` stands on */
      head: string | null;
      /** of all sessions */
      heads: {
        /** id */
        session: string;
        /** of the session */
        name: string | null;
        /** id */
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
      /** id */
      removed: string;
    };
  };
  /** Takes a session back to a snapshot. */
  "rollback": {
    request: {
      /** id or name */
      snapshot: string;
      /** the session that it must belong to */
      session?: string | null;
    };
    answer: {
      /** id */
      session: string;
      /** its name */
      session_name: string;
      /** id */
      snapshot: string;
      /** the session is as after this cell */
      cell: number;
      /** the session's from now on */
      epoch: number;
      /** memory or checkpoint */
      how: string;
      /** time taken */
      us: number;
      /** what could not be saved */
      lost: unknown[];
      /** what could not be restored */
      failed: unknown[];
    };
  };
  /** Makes sessions that start as a copy of a session or snapshot. */
  "fork": {
    request: {
      /** a session or snapshot */
      from: string;
      /** sessions to make, 1 if not given */
      n?: number;
      /** prefix of their names */
      name?: string | null;
      /** `name` is the name of the one session to make */
      exact?: boolean;
      /** they are destroyed soon after the process of this client has ended */
      temporary?: boolean;
    };
    answer: {
      /** made */
      sessions: {
        /** id */
        session: string;
        /** its name */
        name: string;
        /** of its sandbox */
        epoch: number;
      }[];
      /** `image`: each continues exactly from the session's state; `checkpoint`: variables were saved and restored */
      how: string;
      /** why a live session was not forked by image */
      no_image?: string | null;
      /** id of the snapshot they stand on */
      parent: string | null;
      /** what could not be saved; by image: nothing */
      lost: unknown[];
      /** what could not be restored */
      failed: unknown[];
      /** time taken */
      us: number;
    };
  };
  /** Compares two sessions or snapshots. */
  "diff": {
    request: {
      /** a session or snapshot; absent: nothing, and all files that b itself has written or deleted are `added` */
      a?: string | null;
      /** another */
      b: string;
    };
    answer: {
      variables: {
        /** of the variable */
        name: string;
        /** from a to b */
        change: "added" | "removed" | "changed";
        /** its type in a */
        type_a: string | null;
        /** its type in b */
        type_b: string | null;
      }[];
      files: {
        /** from a to b */
        change: "added" | "removed" | "changed";
        /** below /workspace */
        path: string;
        /** its bytes, if they are not UTF-8 */
        path_hex?: string;
        /** hash of its contents in a */
        a: string | null;
        /** file, dir, link, deleted; these if a has it */
        type_a?: string;
        /** bytes */
        size_a?: number;
        /** permissions */
        mode_a?: number;
        /** of a link */
        target_a?: string;
        /** the same of b */
        b: string | null;
        type_b?: string;
        size_b?: number;
        mode_b?: number;
        target_b?: string;
        /** a folder that hides the project's contents below it */
        opaque_b?: boolean;
      }[];
      /** there are more */
      truncated: boolean;
      /** what a could not save */
      lost_a: unknown[];
      /** what b could not save */
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
      /** bytes, at most */
      length: number;
    };
    answer: {
      /** of the contents */
      size: number;
      /** nothing follows */
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
      /** of the session */
      name: string;
      /** it is the state after this cell */
      cell: number;
      /** of the file */
      bytes: number;
      /** what could not be saved */
      lost: unknown[];
    };
  };
  /** Begins an import. */
  "import.begin": {
    request: {
      /** of the session; else the file's */
      name?: string | null;
      /** the most its session may have */
      limits?: Record<string, unknown>;
      /** limits that override those of the file */
      given?: Record<string, unknown>;
      /** its tier */
      tier?: string;
      /** as in `exec` */
      allow_degraded?: boolean;
      /** as in `exec` */
      require_exact?: boolean;
    };
    answer: {
      /** names the import, which ends with the connection */
      token: string;
    };
  };
  /** Receives a part of the file. raw = at most 1 MiB. */
  "import.data": {
    request: {
      /** names the import, which ends with the connection */
      token: string;
    };
    answer: Record<string, never>;
  };
  /** Makes a session from the file. */
  "import.end": {
    request: {
      /** names the import, which ends with the connection */
      token: string;
    };
    answer: {
      /** id */
      session: string;
      /** its name */
      name: string;
      /** it is the state after this cell */
      cell: number;
      /** differences from the file */
      notes: unknown[];
      /** what could not be saved */
      lost: unknown[];
      /** what could not be restored */
      failed: unknown[];
    };
  };
  /** Writes into a file; a path that ends in a slash makes a folder. raw = at most 1 MiB. If `durability` of the latest `exec` is `synced`, the session is saved before the answer; if that fails, `unsaved` of the answer says why. A part of 1 MiB, or one with `more`, is saved with the next one, which may be empty. */
  "put": {
    request: {
      /** id or name */
      session: string;
      /** below /workspace; `.` and doubled slashes are passed over */
      path: string;
      /** where the bytes go */
      offset: number;
      /** the file ends after them */
      truncate?: boolean;
      /** permissions; 0: 0644 */
      mode?: number;
      /** more requests follow; the session is saved with the last one */
      more?: boolean;
    };
    answer: {
      /** of the file */
      size: number;
    };
  };
  /** Reads from a file. raw of the answer = bytes. */
  "get": {
    request: {
      /** id or name */
      session: string;
      /** below /workspace; `.` and doubled slashes are passed over */
      path: string;
      /** first byte */
      offset: number;
      /** bytes, at most */
      length: number;
      /** zeros need not come as bytes */
      holes?: boolean;
    };
    answer: {
      /** of the file */
      size: number;
      /** permissions */
      mode: number;
      /** nothing follows */
      eof: boolean;
      /** with `holes`: so many bytes from `offset` on are zeros and do not come */
      hole?: number;
      /** with `holes`: bytes that all files of the session may have together */
      room?: number;
      /** with `holes`: it has a project, whose files do not count */
      project?: boolean;
    };
  };
  /** Lists a folder. */
  "ls": {
    request: {
      /** id or name */
      session: string;
      /** below /workspace; `.` and doubled slashes are passed over */
      path: string;
    };
    answer: {
      /** in the folder */
      entries: {
        /** in its folder */
        name: string;
        /** file, dir, link, other */
        type: string;
        /** bytes */
        size: number;
        /** unix seconds */
        mtime: number | null;
      }[];
      /** there are more */
      truncated: boolean;
    };
  };
  /** Reads stored output of a cell. raw of the answer = bytes. */
  "output": {
    request: {
      /** `output.handle` of a result */
      handle: string;
      /** stdout, stderr */
      stream: string;
      /** first byte */
      offset: number;
      /** bytes, at most */
      length: number;
    };
    answer: {
      /** bytes stored */
      size: number;
      /** nothing follows */
      eof: boolean;
      /** the cell printed more than is stored */
      truncated?: boolean;
    };
  };
  /** Reports what the daemon uses. */
  "stats": {
    request: Record<string, never>;
    answer: {
      /** open */
      sessions: number;
      /** connected */
      clients: number;
      /** memory of the daemon */
      rss_bytes: number;
      /** of the daemon */
      pid: number;
      /** sessions whose latest save failed */
      unsaved?: {
        /** its name */
        session: string;
        /** last cell before the latest successful save; 0: none */
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
      /** name of a tier; else the strongest */
      tier?: string;
    };
    answer: {
      /** what this host can do */
      features: {
        /** of a control or feature */
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
      /** strength: `auto` takes the highest, one below 100 only with `allow_degraded` */
      rank: number;
      /** `auto` never takes it */
      by_name?: boolean;
      /** controls that are always in force: those of the manifest; `namespaces`: the host's files and processes cannot be seen */
      guarantees: string[];
      /** runtimes (parts of their names) with which it has its own kernel: the guarantee `kernel` */
      kernels?: string[] | null;
      /** methods of the tier protocol that it serves; `rootfs`: other file systems; `images`: `save` and `load` with images; `copies`: a project is copied into the workspace */
      verbs: string[];
      /** for each limit's key, how it is enforced; `approximate: ...` if not exact */
      limits: Record<string, unknown>;
      /** controls that are weaker on this host, as in the manifest: `NAME: reason` */
      degraded?: string[];
    };
  };
  /** Saves all sessions and ends the daemon. `denied`: sessions could not be saved, and the daemon continues. Requests that wait for a session are refused (`peer`). A running cell is cut off, and the state before the cell is saved; if that is not possible, or files were put beside the cell, the cell has 5 s to end. Snapshots in memory are written first. */
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
        /** why it could not be saved, or empty */
        reason: string;
        /** what could not be saved or restored */
        lost: {
          /** of a variable, or a path */
          name: string;
          /** of a variable, or what kind of file */
          type?: string;
          /** for people */
          reason: string;
        }[];
        /** an image of the memory holds these items */
        image?: boolean;
      }[];
    };
  };
  /** Starts a run, or resumes one. raw = the prompt, or the task of an agent. The result comes as events `result`, then the answer. */
  "run": {
    request: {
      /** instructions to the model, before the prompt */
      system?: string;
      /** id of the run to resume, or its beginning; then there is no prompt */
      resume?: string;
      /** run an agent: iterations until the final answer */
      agent?: boolean;
      /** working folder of the run */
      folder?: string;
      /** `KEY=VALUE`: keys of the configuration, and options of `run`, `agent` or `resume` (`output_dir`: `--output`) */
      settings?: string[];
      /** tools of the program */
      tools?: {
        /** as the model calls it */
        name: string;
        /** for the model */
        description?: string;
        /** JSON Schema of its arguments; default: it takes none */
        parameters?: Record<string, unknown>;
        /** of a call; 0: 30 s */
        timeout_ms?: number;
      }[];
      /** events `record` are wanted */
      records?: boolean;
      /** events `text` are wanted */
      text?: boolean;
    };
    answer: Record<string, never>;
  };
  /** Reads the configuration without a run. It comes as events `result`. */
  "settings": {
    request: {
      /** the folder whose configuration it is */
      folder?: string;
      /** `KEY=VALUE`, as of `run` */
      settings?: string[];
    };
    answer: Record<string, never>;
  };
  /** Runs a command without a terminal. What it prints with `--json` comes as events `result`. */
  "command": {
    request: {
      /** `diff`, `export`, `import` or `apply`, then its words on the command line */
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
  /** attested; of the sandbox that ran it: 1, and one more each time the session was woken, rolled back or cleared */
  epoch?: number;
  /** attested, but ok and error of Python are claimed; `error`: exception, or exit code other than 0. In `history` and `show`, of cells without a result, also `running`; `refused`: it could not be run, and left nothing; `unknown`: the daemon or the machine ended while it ran */
  status: "ok" | "error" | "timeout" | "oom" | "killed" | "limit" | "interrupted";
  /** attested; `rolled_back`: the cell was killed (or failed, with `atomic`), and variables and files are as before it, as far as `transaction` says, and no process that was there before runs; `lost`: the interpreter was killed, variables are as at the session's start, files stay (with `transaction.workspace` copied they are as before the cell); `restored_from_checkpoint`: it was killed, and the session goes back to its latest checkpoint */
  state: "kept" | "rolled_back" | "restored_from_checkpoint" | "lost";
  /** attested for commands, else claimed; for Python the code of SystemExit, or of the last failed line with !; null if there is none */
  exit_code: number | null;
  /** attested; name of the signal that ended interpreter or command during the cell; not of the kill that undoes a cell which had ended */
  signal: string | null;
  /** claimed; at most `output` characters, head and tail */
  stdout?: string;
  /** claimed; as stdout */
  stderr?: string;
  /** claimed; repr of the last expression */
  value: string | null;
  /** claimed; repr of `result` if the cell set it */
  result: string | null;
  /** claimed; [{mime type: text, or base64 for binary types}] */
  displays?: unknown[];
  /** claimed; null, or the exception */
  error: {
    /** name of the exception */
    type: string;
    /** its text */
    message: string;
    /** as Python prints it */
    traceback: string | null;
    /** of the cell */
    line: number | null;
    /** advice; each front end fills it in its own words for `cause` and `module`: options of the command line, options of the library, what a model can do */
    hint: string | null;
    /** the `rule` of a denial, or "no such file", "no such program", "no such module", "no input", "notebook", "shell line" */
    cause?: string | null;
    /** of a file that is not there */
    path?: string | null;
    /** of a failed import: {`name`, `templates`: those that have it, `command`: how to get it} */
    module?: Record<string, unknown> | null;
  } | null;
  /** refused operations, each with its source */
  denials: {
    /** kernel, limit, guest */
    source: string;
    /** network, resources, filesystem, syscalls */
    control: string;
    /** what was tried */
    operation: string;
    /** on what */
    object: string | null;
    /** what refused it */
    rule: string | null;
    /** what helps; as of `error`, for `rule` */
    hint: string | null;
    /** how often */
    count: number;
  }[];
  /** attested; number of denials beyond the 32 listed */
  denials_dropped: number;
  /** attested; this cell began in a new interpreter, because the interpreter before was killed; the result of that cell said `lost` */
  restarted: boolean;
  /** attested; what protected this cell, determined before it ran; names in notes are claimed. /tmp and /dev/shm are never covered */
  transaction?: {
    /** standby, off, unavailable, dropped_for_memory */
    interpreter: string;
    /** copied, off, unavailable */
    workspace: string;
    /** the reason, and what would not be undone */
    notes: string[];
  };
  /** attested; the limit that ended or cut the cell */
  limit: {
    /** its configuration key */
    key: string;
    /** as a number */
    value: number;
    /** for people */
    text: string;
    /** the option that raises it */
    flag: string;
  } | null;
  /** attested; what the cell used */
  usage: {
    /** time taken */
    wall_us: number;
    /** time on processors */
    cpu_us: number | null;
    /** highest use; on cgroup v2 before kernel 6.12 that of the session so far */
    memory_peak_bytes: number | null;
    /** written to standard output */
    stdout_bytes: number;
    /** written to standard error */
    stderr_bytes: number;
    /** written to files */
    written_bytes: number | null;
    /** time before the cell began */
    setup_us: number;
  };
  /** attested; what was printed */
  output: {
    /** text was cut */
    truncated: boolean;
    /** characters, all of them */
    stdout_chars: number;
    /** characters, all of them */
    stderr_chars: number;
    /** reads the full text (of a stream at most 64 MiB, if the disk of the state folder has room), until the session is destroyed or cleared, others need the room, or the daemon ends; null if nothing was cut or stored */
    handle: string | null;
  };
  /** attested; what changed in the workspace */
  files: {
    /** paths below /workspace */
    created: string[];
    /** paths below /workspace */
    modified: string[];
    /** paths below /workspace */
    deleted: string[];
    /** there are more */
    truncated: boolean;
  };
  /** attested; what was enforced, see below */
  manifest?: {
    /** its name */
    tier: string;
    /** its name */
    template: string;
    /** {`network`, `resources`, `filesystem`, `syscalls`, `disposable`}: each {`enforced`: bool, ...details} */
    controls: Record<string, unknown>;
    /** controls that could not be had */
    degraded: string[];
    [more: string]: unknown;
  };
  /** attested; which members are which */
  sources: {
    /** names of members */
    attested: string[];
    /** names of members */
    claimed: string[];
  };
  /** attested; of the session, null for an unnamed one */
  name: string | null;
  /** attested; of the first cell after the session was woken, else null */
  restored: {
    /** its number; null: there was none */
    checkpoint: number | null;
    /** it is the state after this cell */
    cell: number;
    /** cells after it that the caller gave up or `skip` left out */
    missing: unknown[];
    /** cells that were run again */
    replayed: unknown[];
    /** [{`name`, `reason`}] what could not be saved or restored (of a new session: its name, if a session of that name may have been lost with a damaged journal; `cell N`: differences between its replay and its first run, in value, result, exit code, error, displays, output, and names of changed files, not their contents) */
    failed: unknown[];
    /** files put after the checkpoint that the caller gave up */
    missing_puts: unknown[];
    /** only if variables could not hold everything: whether the session continues exactly, from an image of its memory */
    image?: boolean;
    /** why not */
    no_image?: string;
    /** time taken */
    wake_us: number;
  } | null;
  /** attested; only with `checkpoint: "cell"` */
  checkpoint?: {
    /** the answer of the method `checkpoint` */
    made: Record<string, unknown> | null;
    /** why there is none */
    error: string | null;
  };
  /** attested; only if there are any: settings named in `configured` of the call, and the engine of DOCKER_HOST, for which the session keeps another value */
  not_applied?: {
    /** `tier`, `template`, `project`, `rootfs`, `engine`, `network`, or a limit, as `memory` */
    setting: string;
    /** its value in the session */
    session: string;
    /** the configured value */
    asked: string;
  }[];
  /** attested; only if the latest save of the session failed: {`session`, `cell`, `reason`, `text`, `error`}, as in docs/wire.md */
  unsaved?: Record<string, unknown>;
}

/** Events before the answer, by name. */
export interface Events {
  waiting: {
    /** what the session is doing */
    for: "run" | "save" | "rollback";
    /** number of the running cell */
    cell: number | null;
    /** how long it has lasted */
    ms: number;
    /** number of cells that wait before it */
    ahead: number;
  };
  stdout: Record<string, never>;
  stderr: Record<string, never>;
  gap: {
    /** which output */
    stream: "stdout" | "stderr";
    /** left out of the middle */
    omitted_chars: number;
    /** XXH64 of the whole stream, by which a replay is compared */
    hash?: string;
  };
  display: {
    /** [[type, byte length], ...]; raw = the parts, concatenated */
    mime: unknown[];
  };
  call: {
    /** its number in the cell; raw = the question, at most 4 MiB */
    call: number;
  };
  taken: Record<string, never>;
  gone: {
    /** id of the sandbox */
    session: string;
    /** why it ended by itself */
    reason: string;
  };
  begun: {
    /** of the record, which has begun or continues */
    trajectory_id: string;
  };
  record: {
    /** its last part; raw = text */
    last?: boolean;
  };
  text: Record<string, never>;
  note: Record<string, never>;
  tool: {
    /** its number in the run; raw = the arguments, a JSON object */
    call: number;
    /** its name */
    tool: string;
  };
  result: {
    /** its last part; raw = text */
    last?: boolean;
  };
}

/** Why a request failed. */
export interface Failure {
  /** kind of failure */
  code: string;
  /** facts, without options or arguments */
  message: string;
  /** of a system call that failed */
  errno?: number;
  /** a name, or `cell` */
  object?: string;
  /** the limit that was met */
  limit?: {
    /** key of the limit that was met */
    name: string;
    /** as a number */
    value?: number;
  };
  /** the fix; the client words it for its users */
  remedy?: {
    /** below; others may come */
    kind: string;
    /** as the kind says */
    name?: string;
    /** of `raise_limit`: what would do; -1: none */
    value?: number;
    /** of `recover`: values of `exec`'s `recover` that fit */
    ways?: string[];
  };
}
// end
