// The clock of a test server, which a test, and this page, can move.
import { request } from "./client";

export interface ClockState {
  /** In seconds since the epoch. */
  now: number;
  isFrozen: boolean;
}

const PATH = "/kapiserver/clock";

export function readClock(): Promise<ClockState> {
  return request<ClockState>(PATH);
}

/** Move the clock by some seconds, or freeze it or let it go on. Throws ApiError. */
export function setClock(change: { advance?: number; freeze?: boolean }): Promise<ClockState> {
  return request<ClockState>(PATH, { method: "POST", body: JSON.stringify(change) });
}
