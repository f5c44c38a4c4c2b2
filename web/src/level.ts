/** Sound levels of a track, read from an AnalyserNode. */

export const BANDS = 24;
/** Voices end here; what lies above would leave half of the meter dark. */
const HIGHEST_HZ = 6000;
const FFT_SIZE = 1024;
const FLOOR_DBFS = -60;

export interface LevelReading {
  readonly dbfs: number;
  /** `BANDS` values within 0..1, low frequencies first. */
  readonly bands: readonly number[];
}

export const SILENT: LevelReading = { dbfs: FLOOR_DBFS, bands: new Array<number>(BANDS).fill(0) };

/** Taps one track; `read` gives the level of this moment. */
export class LevelTap {
  private readonly source: MediaStreamAudioSourceNode;
  private readonly analyser: AnalyserNode;
  private readonly samples = new Float32Array(FFT_SIZE);
  private readonly spectrum = new Uint8Array(FFT_SIZE / 2);

  constructor(context: AudioContext, track: MediaStreamTrack) {
    this.source = context.createMediaStreamSource(new MediaStream([track]));
    this.analyser = context.createAnalyser();
    this.analyser.fftSize = FFT_SIZE;
    this.analyser.smoothingTimeConstant = 0.7;
    this.source.connect(this.analyser);
  }

  read(): LevelReading {
    this.analyser.getFloatTimeDomainData(this.samples);
    this.analyser.getByteFrequencyData(this.spectrum);
    const binHz = this.analyser.context.sampleRate / FFT_SIZE;
    const bins = Math.round(HIGHEST_HZ / binHz);
    return { dbfs: levelOf(this.samples), bands: bandsOf(this.spectrum.subarray(0, bins)) };
  }

  close(): void {
    this.source.disconnect();
  }
}

/** RMS in dB below full scale, not under -60. */
export function levelOf(samples: Float32Array): number {
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return Math.max(FLOOR_DBFS, 10 * Math.log10(power + 1e-12));
}

/** The loudest bin of each of `BANDS` equal parts, within 0..1. */
export function bandsOf(bins: Uint8Array): number[] {
  const width = bins.length / BANDS;
  return Array.from({ length: BANDS }, (_, band) => {
    const part = bins.subarray(Math.floor(band * width), Math.ceil((band + 1) * width));
    return Math.max(0, ...part) / 255;
  });
}
