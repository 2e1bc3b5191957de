/* The resident kernel: it stays on the card and answers frames out of the host's memory.
 *
 *   host    keys and tag ─► rows ┐            ┌─► answers ─► all have this frame's bit: done
 *   card                         └─ poll ─ search ┘
 *
 * A block owns one chunk of one frame: 32 rows, one a lane, and 32 answers. Each 16-byte piece of a
 * row carries a tag in bits that no key uses, so that the very read that finds a frame has brought
 * its keys: one way over the link and back, and no doorbell. A frame begins for a block when all
 * pieces of all its rows have the tag after the one that it answered last; the host fills rows
 * that a frame leaves open in its last chunk, and touches no chunk behind that. An answer is an id
 * of 31 bits and the lowest bit of the tag's number, so it, too, says by itself that it is there.
 *
 * The host uses a chunk again when it has all its 32 answers. So rows of a chunk have the tag that
 * was answered last or the one after it, never others, and the same holds for answers.
 *
 * Versions: a chunk has the view of its frame in its head, written before its rows. A tag says
 * whether the chunk's last frame saw another view; then the block reads the head, behind a fence
 * that empties caches of what they hold of former images at the same place. The host frees an image
 * when all frames that named it are answered, and a block never reads one without a frame that
 * names it.
 *
 * No two blocks read the same line of the host's memory: such reads are done one after the other,
 * each all the way to the host and back. When blocks looked for the same word that tells to leave,
 * every 16 polls, the whole kernel became as slow as that from 16 blocks on, 80 us a frame of 32.
 *
 * Grid: a block a chunk, of up to 8 warps; none waits for another, so any number may be on the
 * card. The first warp polls and answers; all search, each its part of the tables, and the best
 * rank is found in shared memory. Bytes a key: those of its pieces and 4 of the answer over the
 * link, the rest as the engine says. A chunk whose polls are in vain for long sleeps between them,
 * so that frames that are not in use do not fill the link. Now and then it looks whether it shall
 * leave; it leaves by itself when the host gives no sign, and when its lease ends. CPU reference:
 * `resident::host`.
 */
#ifndef WARPSWITCH_RESIDENT_CUH
#define WARPSWITCH_RESIDENT_CUH

#include "warpswitch/key.cuh"

#define WS_BLOCK_WARPS_MAX 8
/* Polls in vain between two looks at the control words. */
#define WS_CONTROL_POLLS 16

static_assert(sizeof(ws_frames) == 48, "what the host passes");

/* Reads and writes of memory that the host works on meanwhile: always the memory itself, a piece
 * in one. They order nothing; fences do where it matters. */
WS_FN uint4 ws_piece(const ws_u32 *at) {
    ws_u64 low, high;
    asm volatile("{\n\t.reg .b128 piece;\n\t"
                 "ld.relaxed.sys.global.b128 piece, [%2];\n\t"
                 "mov.b128 {%0, %1}, piece;\n\t}"
                 : "=l"(low), "=l"(high)
                 : "l"(at)
                 : "memory");
    return make_uint4((ws_u32)low, (ws_u32)(low >> 32), (ws_u32)high, (ws_u32)(high >> 32));
}

WS_FN ws_u32 ws_host_word(const ws_u32 *at) {
    ws_u32 word;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
    return word;
}

WS_FN ws_u64 ws_host_words(const ws_u32 *at) {
    ws_u64 words;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(words) : "l"(at) : "memory");
    return words;
}

WS_FN void ws_answer(ws_u32 *at, ws_u32 word) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(at), "r"(word) : "memory");
}

WS_FN ws_u64 ws_now_ns() {
    ws_u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Whether a block leaves: told to, or no beat or no lease any more. */
struct ws_stay {
    ws_u64 started_ns, beat_ns, control;
};

WS_FN bool ws_leaves(const ws_frames &frames, ws_u64 control, ws_stay &stay) {
    const ws_u64 now_ns = ws_now_ns();
    if (control != stay.control) {
        stay.control = control;
        stay.beat_ns = now_ns;
    }
    const bool is_idle = now_ns - stay.beat_ns > frames.idle_ns;
    return (control & 1) != 0 || is_idle || now_ns - stay.started_ns > frames.lease_ns;
}

/* Whether a piece is as the host writes it: behind the key's last word come zeros. What is certain
 * is asked nevertheless, as it makes use of the whole piece: of a piece of which only some words
 * are used the compiler reads just these, one by one, and a tag with another frame's key. */
WS_FN bool ws_is_whole(const uint4 &piece, int number) {
    const int words = WS_PIECES == 1 ? 4 : WS_WORDS - 3 * number;
    return (words >= 2 || piece.y == 0) && (words >= 3 || piece.z == 0);
}

/* The key in the pieces of a row. */
WS_FN ws_key ws_key_of(const uint4 *pieces) {
    ws_key key;
    WS_UNROLL
    for (int i = 0; i < WS_WORDS; i++) {
        const int piece = WS_PIECES == 1 ? 0 : i / 3, place = WS_PIECES == 1 ? i : i % 3;
        const uint4 four = pieces[piece];
        const ws_u32 words[4] = {four.x, four.y, four.z, four.w & ~WS_TAG};
        key.w[i] = words[place];
    }
    return key;
}

/* What the warps of a block share: the first one polls, all search. */
struct ws_shared {
    ws_view view;
    ws_u32 words[WS_WORDS][WS_LANES];
    ws_u32 best[WS_LANES];
    bool leaves;
};

/* This warp's part of the search. */
static __device__ void ws_take_part(ws_shared &shared, const ws_key &key) {
    const ws_u32 lane = threadIdx.x % WS_LANES;
    const ws_u32 part = threadIdx.x / WS_LANES, parts = blockDim.x / WS_LANES;
    const ws_u32 rank = ws_lookup_part(shared.view, key, part, parts);
    if (rank != WS_NONE) {
        atomicMin(&shared.best[lane], rank);
    }
}

/* The other warps: they wait at a barrier, which costs nobody anything. */
static __device__ void ws_help(ws_shared &shared) {
    while (true) {
        __syncthreads();
        if (shared.leaves) {
            return;
        }
        ws_key key;
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            key.w[i] = shared.words[i][threadIdx.x % WS_LANES];
        }
        ws_take_part(shared, key);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(WS_BLOCK_WARPS_MAX *WS_LANES, 1)
    ws_resident(const ws_frames frames) {
    __shared__ ws_shared shared;
    if (threadIdx.x >= WS_LANES) {
        ws_help(shared);
        return;
    }
    const ws_u32 lane = threadIdx.x, chunk = blockIdx.x;
    const ws_u32 *row = frames.rows + ((ws_u64)chunk * WS_PIECES * WS_LANES + lane) * 4;
    ws_u32 *answer = frames.answers + chunk * WS_LANES + lane;
    const ws_u32 *head = frames.heads + (ws_u64)chunk * WS_HEAD_WORDS;
    ws_u32 seen = ws_host_word(head + WS_HEAD_SEEN), in_vain = 0;
    bool has_view = false;
    ws_stay stay = {ws_now_ns(), 0, 0};
    stay.beat_ns = stay.started_ns;
    shared.leaves = false;
    while (true) {
        /* The control words are read beside rows, so that no frame waits for that. */
        const bool looks = in_vain % WS_CONTROL_POLLS == WS_CONTROL_POLLS - 1;
        const ws_u64 control = looks ? ws_host_words(head + WS_HEAD_CONTROL) : 0;
        uint4 pieces[WS_PIECES];
        WS_UNROLL
        for (int i = 0; i < WS_PIECES; i++) {
            pieces[i] = ws_piece(row + i * WS_LANES * 4);
        }
        const ws_u32 tag = pieces[0].w & WS_TAG;
        bool is_new = (tag & WS_TAG_NUMBER) == (seen + WS_TAG_ONE & WS_TAG_NUMBER);
        WS_UNROLL
        for (int i = 0; i < WS_PIECES; i++) {
            is_new &= (pieces[i].w & WS_TAG) == tag && ws_is_whole(pieces[i], i);
        }
        if (!__all_sync(0xffffffffu, is_new)) {
            in_vain++;
            if (looks) {
                /* One lane decides for all: they must not part. */
                const bool leaves = lane == 0 && ws_leaves(frames, control, stay);
                if (__any_sync(0xffffffffu, leaves)) {
                    shared.leaves = true;
                    __syncthreads();
                    return;
                }
            }
            if (in_vain > frames.hot_polls) {
                __nanosleep(frames.cold_ns);
            }
            continue;
        }
        in_vain = 0;
        if (!has_view || (tag & WS_TAG_RELOAD) != 0) {
            /* The tag was read before what it stands for, and no cache holds a former image. */
            __threadfence_system();
            if (lane < sizeof(ws_view) / 4) {
                ((ws_u32 *)&shared.view)[lane] = ws_host_word(head + lane);
            }
            has_view = true;
        }
        const ws_key key = ws_key_of(pieces);
        WS_UNROLL
        for (int i = 0; i < WS_WORDS; i++) {
            shared.words[i][lane] = key.w[i];
        }
        shared.best[lane] = WS_NONE;
        __syncthreads();
        ws_take_part(shared, key);
        __syncthreads();
        const ws_u32 id = ws_id(shared.view, shared.best[lane]);
        ws_answer(answer, (id & 0x7fffffffu) | (tag & WS_TAG_NUMBER) << WS_ANSWER_SHIFT);
        seen = tag & WS_TAG_NUMBER;
    }
}

#endif
