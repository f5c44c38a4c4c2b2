/**
 * One call at a time: microphone, room, agent, transcript. Holds the state that the page shows and
 * knows nothing of how it is shown.
 */

import {
  ConnectionState,
  createLocalAudioTrack,
  DisconnectReason,
  type LocalAudioTrack,
  type Participant,
  ParticipantKind,
  RemoteAudioTrack,
  type RemoteParticipant,
  type RemoteTrack,
  Room,
  RoomEvent,
  type TextStreamReader,
  Track,
} from "livekit-client";

import { CallError, type Failure, failure, microphoneFailure } from "./failures";
import { DATA_TOPIC, parseMessage } from "./messages";
import { requestRoom } from "./server";
import { condense, type NetworkStats } from "./stats";
import { merge, type Transcript } from "./transcript";

export type Phase = "idle" | "connecting" | "waiting" | "live" | "reconnecting" | "ended";

export interface CallState {
  readonly phase: Phase;
  readonly muted: boolean;
  /** The agent's own attribute: initializing, listening, speaking. */
  readonly agentState: string;
  readonly transcript: Transcript;
  readonly failure: Failure | null;
  readonly microphone: MediaStreamTrack | null;
  readonly agentAudio: MediaStreamTrack | null;
  readonly playbackBlocked: boolean;
  readonly network: NetworkStats | null;
  readonly agentFigures: Readonly<Record<string, number>>;
}

const INITIAL: CallState = {
  phase: "idle",
  muted: false,
  agentState: "",
  transcript: [],
  failure: null,
  microphone: null,
  agentAudio: null,
  playbackBlocked: false,
  network: null,
  agentFigures: {},
};

const TRANSCRIPT_TOPIC = "lk.transcription";
const AGENT_STATE = "lk.agent.state";
/** Every line was taken between the token and the room. */
const NO_SLOT = "resource_exhausted";
const JOIN_LIMIT_MS = 20_000;
const STATS_EVERY_MS = 1_000;

export class Call {
  private state = INITIAL;
  /** Rises with every start and end, so that what an older call still awaits is let go. */
  private attempt = 0;
  private readonly listeners = new Set<() => void>();
  private room: Room | null = null;
  private microphone: LocalAudioTrack | null = null;
  private agentTrack: RemoteAudioTrack | null = null;
  private joinTimer: number | undefined;
  private statsTimer: number | undefined;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): CallState => this.state;

  async connect(): Promise<void> {
    const attempt = ++this.attempt;
    this.set({ ...INITIAL, phase: "connecting" });
    try {
      await this.start(() => attempt === this.attempt);
    } catch (error) {
      if (attempt === this.attempt) {
        await this.finish(error instanceof CallError ? error.failure : unexpected(error));
      }
    }
  }

  /** Go from nothing to a room with our microphone in it; stops where `wanted` has turned false. */
  private async start(wanted: () => boolean): Promise<void> {
    // The microphone comes first: who may not speak should not take up one of the agent's lines.
    const microphone = await openMicrophone();
    if (!wanted()) {
      microphone.stop();
      return;
    }
    this.microphone = microphone;
    this.set({ microphone: microphone.mediaStreamTrack });
    const details = await requestRoom();
    if (!wanted()) {
      return;
    }
    const room = this.newRoom();
    await joinRoom(room, details.serverUrl, details.participantToken);
    await room.localParticipant.publishTrack(microphone, { source: Track.Source.Microphone });
    if (wanted()) {
      this.awaitAgent(room);
    }
  }

  async toggleMute(): Promise<void> {
    const muted = !this.state.muted;
    this.set({ muted });
    await (muted ? this.microphone?.mute() : this.microphone?.unmute());
  }

  async unblockPlayback(): Promise<void> {
    await this.room?.startAudio();
  }

  async hangUp(): Promise<void> {
    await this.finish(null);
  }

  private newRoom(): Room {
    const room = new Room({ disconnectOnPageLeave: true });
    this.room = room;
    room.registerTextStreamHandler(TRANSCRIPT_TOPIC, (reader, participant) => {
      void this.readSegment(room, reader, participant.identity);
    });
    room
      .on(RoomEvent.ParticipantConnected, (participant) => {
        this.noticeAgent(participant);
      })
      .on(RoomEvent.ParticipantAttributesChanged, (_, participant) => {
        this.noticeAgent(participant);
      })
      .on(RoomEvent.TrackSubscribed, (track, _, participant) => {
        this.playAgent(track, participant);
      })
      .on(RoomEvent.DataReceived, (payload, _participant, _kind, topic) => {
        this.readMessage(payload, topic);
      })
      .on(RoomEvent.AudioPlaybackStatusChanged, () => {
        this.set({ playbackBlocked: !room.canPlaybackAudio });
      })
      .on(RoomEvent.ConnectionStateChanged, (connection) => {
        this.noticeConnection(connection);
      })
      .on(RoomEvent.ParticipantDisconnected, (participant) => {
        if (this.room === room && participant.kind === ParticipantKind.AGENT) {
          void this.finish(failure("agent-left"));
        }
      })
      .on(RoomEvent.Disconnected, (reason) => {
        // While connecting, `start` itself learns of it and knows better what happened.
        if (this.room === room && this.state.phase !== "connecting") {
          void this.finish(farewell(reason));
        }
      });
    return room;
  }

  private awaitAgent(room: Room): void {
    this.set({ phase: "waiting" });
    this.joinTimer = window.setTimeout(() => {
      void this.finish(failure("agent-missing"));
    }, JOIN_LIMIT_MS);
    for (const participant of room.remoteParticipants.values()) {
      this.noticeAgent(participant);
    }
  }

  private noticeAgent(participant: Participant): void {
    if (participant.kind !== ParticipantKind.AGENT) {
      return;
    }
    window.clearTimeout(this.joinTimer);
    this.set({ agentState: participant.attributes[AGENT_STATE] ?? "initializing" });
    if (this.state.phase === "waiting") {
      this.set({ phase: "live" });
      this.statsTimer = window.setInterval(() => {
        void this.readNetwork();
      }, STATS_EVERY_MS);
    }
  }

  private playAgent(track: RemoteTrack, participant: RemoteParticipant): void {
    if (!(track instanceof RemoteAudioTrack) || participant.kind !== ParticipantKind.AGENT) {
      return;
    }
    this.agentTrack = track;
    document.body.append(hidden(track.attach()));
    this.set({ agentAudio: track.mediaStreamTrack });
  }

  private async readSegment(room: Room, reader: TextStreamReader, sender: string): Promise<void> {
    const id = reader.info.attributes?.["lk.segment_id"] ?? reader.info.id;
    const speaker = sender === room.localParticipant.identity ? "you" : "agent";
    let text = "";
    const show = (final: boolean): void => {
      if (this.room === room) {
        this.set({ transcript: merge(this.state.transcript, { id, speaker, text, final }) });
      }
    };
    for await (const piece of reader) {
      text += piece;
      show(false);
    }
    show(reader.info.attributes?.["lk.transcription_final"] !== "false");
  }

  private readMessage(payload: Uint8Array, topic: string | undefined): void {
    const message = topic === DATA_TOPIC ? parseMessage(payload) : null;
    if (message?.type === "stats") {
      this.set({ agentFigures: message.figures });
    } else if (message !== null) {
      const code = message.code === NO_SLOT ? "agent-busy" : (`agent-${message.type}` as const);
      void this.finish(failure(code, message.message || undefined));
    }
  }

  private noticeConnection(connection: ConnectionState): void {
    if (connection === ConnectionState.Reconnecting && this.state.phase === "live") {
      this.set({ phase: "reconnecting" });
    } else if (connection === ConnectionState.Connected && this.state.phase === "reconnecting") {
      this.set({ phase: "live" });
    }
  }

  private async readNetwork(): Promise<void> {
    const report = await this.agentTrack?.receiver?.getStats();
    if (report !== undefined) {
      this.set({ network: condense(report.values() as Iterable<Record<string, unknown>>) });
    }
  }

  /** End the call, once; the transcript stays on the page. */
  private async finish(reason: Failure | null): Promise<void> {
    if (this.state.phase === "idle" || this.state.phase === "ended") {
      return;
    }
    this.attempt += 1;
    window.clearTimeout(this.joinTimer);
    window.clearInterval(this.statsTimer);
    this.set({ phase: "ended", failure: reason, microphone: null, agentAudio: null, muted: false });
    this.microphone?.stop();
    this.agentTrack?.detach().forEach((element) => {
      element.remove();
    });
    const room = this.room;
    this.room = this.microphone = this.agentTrack = null;
    await room?.disconnect();
  }

  private set(change: Partial<CallState>): void {
    this.state = { ...this.state, ...change };
    this.listeners.forEach((listener) => {
      listener();
    });
  }
}

/** Echo cancellation for loudspeakers; the model was trained on natural levels, so no more. */
async function openMicrophone(): Promise<LocalAudioTrack> {
  if (!window.isSecureContext) {
    throw new CallError(failure("insecure-page"));
  }
  try {
    return await createLocalAudioTrack({
      echoCancellation: true,
      noiseSuppression: false,
      autoGainControl: false,
    });
  } catch (error) {
    throw new CallError(microphoneFailure(error));
  }
}

async function joinRoom(room: Room, url: string, token: string): Promise<void> {
  try {
    await room.connect(url, token);
  } catch {
    throw new CallError(failure("livekit-unreachable"));
  }
}

function farewell(reason: DisconnectReason | undefined): Failure | null {
  const ours = reason === DisconnectReason.CLIENT_INITIATED;
  return ours || reason === DisconnectReason.ROOM_DELETED ? null : failure("connection-lost");
}

function unexpected(error: unknown): Failure {
  return failure("unexpected", error instanceof Error ? error.message : undefined);
}

function hidden(element: HTMLMediaElement): HTMLMediaElement {
  element.hidden = true;
  return element;
}
