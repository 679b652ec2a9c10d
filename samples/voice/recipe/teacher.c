/* Bulk teacher: speaks many lines with Flite in one process.
 *
 * Input, one text a line:    id|voice|text        voice: rms, slt, awb or kal16
 * Output, one line a text:   id voice rate_hz first_sample num_samples phone:end_s:place:chars ...
 *                            or "id FAIL"
 * place, chars: where in the text (bytes) the written token stands that the phone belongs to, and
 * its length; -1 and 0 for pauses.
 * All samples (int16) go to the file named on the command line; first_sample counts from its start.
 */
#include <flite/flite.h>
#include <stdio.h>
#include <string.h>

#define NUM_VOICES 4
#define MAX_LINE 4096

cst_voice *register_cmu_us_rms(const char *folder);
cst_voice *register_cmu_us_slt(const char *folder);
cst_voice *register_cmu_us_awb(const char *folder);
cst_voice *register_cmu_us_kal16(const char *folder);

static const char *names[NUM_VOICES] = {"rms", "slt", "awb", "kal16"};

/* Index of a voice by name; the first one for an unknown name. */
static int find_voice(const char *name)
{
    for (int i = 0; i < NUM_VOICES; i++)
        if (!strcmp(names[i], name))
            return i;
    return 0;
}

/* The token a phone speaks, or 0 for a pause. */
static cst_item *token_of(cst_item *phone)
{
    cst_item *syllable = item_parent(item_as(phone, "SylStructure"));
    cst_item *word = item_parent(syllable);
    return word ? item_parent(item_as(word, "Token")) : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s SAMPLES < LINES > INDEX\n", argv[0]);
        return 2;
    }
    FILE *out = fopen(argv[1], "wb");
    if (!out) {
        perror(argv[1]);
        return 3;
    }
    flite_init();
    cst_voice *voices[NUM_VOICES] = {register_cmu_us_rms(0), register_cmu_us_slt(0),
                                     register_cmu_us_awb(0), register_cmu_us_kal16(0)};
    char line[MAX_LINE];
    long first_sample = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *id = strtok(line, "|"), *voice = strtok(0, "|"), *text = strtok(0, "");
        if (!text)
            continue;
        cst_utterance *utterance = flite_synth_text(text, voices[find_voice(voice)]);
        if (!utterance) {
            printf("%s FAIL\n", id);
            continue;
        }
        cst_wave *wave = utt_wave(utterance);
        fwrite(wave->samples, 2, wave->num_samples, out);
        printf("%s %s %d %ld %d", id, voice, wave->sample_rate, first_sample, wave->num_samples);
        first_sample += wave->num_samples;
        cst_item *phone = relation_head(utt_relation(utterance, "Segment"));
        cst_item *known = 0;
        const char *rest = text;
        int place = -1, chars = 0;
        for (; phone; phone = item_next(phone)) {
            cst_item *token = token_of(phone);
            if (token && !(known && item_equal(token, known))) {
                const char *found = strstr(rest, item_feat_string(token, "name"));
                known = token;
                chars = found ? (int)strlen(item_feat_string(token, "name")) : 0;
                place = found ? (int)(found - text) : -1;
                rest = found ? found + chars : rest;
            }
            printf(" %s:%.3f:%d:%d", item_feat_string(phone, "name"),
                   item_feat_float(phone, "end"), token ? place : -1, token ? chars : 0);
        }
        puts("");
        delete_utterance(utterance);
    }
    fclose(out);
    return 0;
}
