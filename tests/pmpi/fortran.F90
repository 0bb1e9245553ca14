! Allreduces from Fortran, in place and not, through one of its three interfaces (MPIF_H, USE_MPI, USE_F08).
program fortran
#ifdef USE_F08
  use mpi_f08
#endif
#ifdef USE_MPI
  use mpi
#endif
  implicit none
#ifdef MPIF_H
  include 'mpif.h'
#endif
#ifdef USE_F08
  type(MPI_Comm) :: comm
#else
  integer :: comm
#endif
  integer, parameter :: n = 1000
  integer :: rank, nranks, ierr, i, ranks, isum(n), iin(n)
  double precision :: din(n), dsum(n)
  real(8) :: r8(n)
  real :: rmax
  logical :: lin, lany

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, nranks, ierr)
  ranks = nranks * (nranks + 1) / 2

  do i = 1, n
    iin(i) = (rank + 1) * i
    din(i) = dble(rank + 1) / 2 * i
    r8(i) = din(i)
    isum(i) = iin(i)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, isum, n, MPI_INTEGER, MPI_SUM, comm, ierr)
  call check(all(isum == (/(ranks * i, i = 1, n)/)), 'integer in place')
  isum = 0
  call MPI_Allreduce(iin, isum, n, MPI_INTEGER, MPI_SUM, comm, ierr)
  call check(all(isum == (/(ranks * i, i = 1, n)/)), 'integer')
  call MPI_Allreduce(din, dsum, n, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call check(all(dsum == (/(dble(ranks) / 2 * i, i = 1, n)/)), 'double precision')
  call MPI_Allreduce(MPI_IN_PLACE, r8, n, MPI_REAL8, MPI_SUM, comm, ierr)
  call check(all(r8 == dsum), 'real8 in place')
  rmax = real(rank)
  call MPI_Allreduce(MPI_IN_PLACE, rmax, 1, MPI_REAL, MPI_MAX, comm, ierr)
  call check(rmax == real(nranks - 1), 'real in place')
  lin = rank == 1
  call MPI_Allreduce(lin, lany, 1, MPI_LOGICAL, MPI_LOR, comm, ierr)
  call check(lany, 'logical')

  if (rank == 0) print '(a)', 'expect taken 5', 'expect passed on type not supported 1'
  call MPI_Comm_free(comm, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine check(so, what)
    logical, intent(in) :: so
    character(*), intent(in) :: what
    if (.not. so) then
      print *, 'rank', rank, 'wrong: ', what
      call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
    end if
  end subroutine
end program
