/*
 * Large allreduces by copy engines: a team's areas, and the launches and copies of a call. A call takes a stream of Peal's beside
 * the user's, forked from it and joined into it.
 */
#ifndef PEALI_ENGINES_H
#define PEALI_ENGINES_H

#include "cuda/team.h"

/*
 * After prove: takes BYTES of the device for copies, for all calls from now on, which REGION then says to the others. In order:
 * open, exchange of the regions, meet, agreement. Legal in captures.
 *
 * Returns: PEAL_OK; PEAL_ERR_MEMORY there is not as much, PEAL_ERR_CUDA (logged).
 */
PEAL_MUST_CHECK peal_status peali_engines_open(peali_team *team, size_t bytes, peali_team_region *region);

/* Maps those of all ranks. PEAL_OK; PEAL_ERR_UNSUPPORTED one cannot be mapped. */
PEAL_MUST_CHECK peal_status peali_engines_meet(peali_team *team, const peali_team_region *regions);

/*
 * Where some rank could not open: drop gives that memory back, which nobody has mapped. Where one could not meet: leave, an
 * exchange of all, and drop. Legal in captures.
 */
void peali_engines_leave(peali_team *team);
void peali_engines_drop(peali_team *team);

/* The least BYTES with which N ranks can call. */
size_t peali_engines_least(int n);

/* Makes CALL, which peali_cuda_load filled for a two-shot allreduce by bulk, one for copy engines, with so many CTAs to reduce. */
void peali_engines_load(peali_cuda_call *call, uint32_t ctas);

/* As peali_team_launch, of such a call. PEAL_ERR_CAPTURE: several captures at once make calls on this team (logged). */
PEAL_MUST_CHECK peal_status peali_engines_launch(peali_team *team, const peali_cuda_call *call, const void *in, void *out,
                                                 peali_cu_strm stream);

/* What is left of it: peers' areas when the team parts, its own when it ends. In a visit. */
void peali_engines_part(peali_team *team);
void peali_engines_close(peali_team *team);

#endif
