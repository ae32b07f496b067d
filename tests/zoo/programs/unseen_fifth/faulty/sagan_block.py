"""Self-attention layer of our GAN discriminator (SAGAN)."""
import torch
import torch.nn as nn
from torch.nn.utils import spectral_norm


class Self_Attn(nn.Module):
    """ Self attention Layer"""

    def __init__(self, in_dim, activation=None):
        super(Self_Attn, self).__init__()
        self.chanel_in = in_dim
        self.activation = activation
        self.query_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.key_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim // 8, kernel_size=1)
        self.value_conv = nn.Conv2d(in_channels=in_dim, out_channels=in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.tensor([0.4]))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)  # B X N X C'
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)  # B X C' X N
        energy = torch.bmm(proj_query, proj_key)
        attention = self.softmax(energy)  # B X N X N
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)  # B X C X N

        out = torch.bmm(proj_value, attention)  # fault: AS101
        out = out.view(m_batchsize, C, width, height)
        out = self.gamma * out + x
        return out


class Discriminator(nn.Module):
    def __init__(self, conv_dim=16):
        super().__init__()
        self.l1 = nn.Sequential(spectral_norm(nn.Conv2d(3, conv_dim, 4, 2, 1)), nn.LeakyReLU(0.1))
        self.l2 = nn.Sequential(spectral_norm(nn.Conv2d(conv_dim, conv_dim * 2, 4, 2, 1)), nn.LeakyReLU(0.1))
        self.attn1 = Self_Attn(conv_dim * 2, 'relu')
        self.last = nn.Conv2d(conv_dim * 2, 1, 4)

    def forward(self, x):
        out = self.l2(self.l1(x))
        out = self.attn1(out)
        return self.last(out).flatten(1)


torch.manual_seed(12)
model = Discriminator()
model.eval()
inputs = (torch.rand(2, 3, 28, 24, generator=torch.Generator().manual_seed(3)) * 2 - 1,)
